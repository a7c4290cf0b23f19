"""``python -m fuzz.files``."""

import sys

from fuzz.files.run import main

if __name__ == "__main__":
    sys.exit(main())
