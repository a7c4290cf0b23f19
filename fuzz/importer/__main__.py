"""``python -m fuzz.importer``."""

import sys

from fuzz.importer.run import main

if __name__ == "__main__":
    sys.exit(main())
