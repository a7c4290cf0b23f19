"""``python -m benchmarks.cpu``."""

import sys

from benchmarks.cpu.run import main

if __name__ == "__main__":
    sys.exit(main())
