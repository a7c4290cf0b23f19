"""``python -m benchmarks.plan``."""

import sys

from benchmarks.plan.run import main

if __name__ == "__main__":
    sys.exit(main())
