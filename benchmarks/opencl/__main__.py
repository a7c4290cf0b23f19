"""``python -m benchmarks.opencl``."""

import sys

from benchmarks.opencl.run import main

if __name__ == "__main__":
    sys.exit(main())
