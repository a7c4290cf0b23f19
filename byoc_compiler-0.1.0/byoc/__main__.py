"""``python -m byoc``: the command line."""

import sys

from byoc.driver.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
