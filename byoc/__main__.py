"""``python -m byoc``, and the command ``byoc``: the command line, where this process can load it."""

import importlib
import sys


def main() -> int:
    """Run the command line; one sentence where its parts cannot be loaded, as with too little memory."""
    try:
        run = importlib.import_module("byoc.cli.main").main
    except (ImportError, MemoryError, OSError) as error:
        cause = next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
        print(f"byoc: its parts cannot be loaded here: {cause.strip()}", file=sys.stderr)
        return 3
    return int(run())


if __name__ == "__main__":
    sys.exit(main())
