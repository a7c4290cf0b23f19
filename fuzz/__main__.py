"""``python -m fuzz``: start a fuzzer."""

from __future__ import annotations

import argparse
import sys

from fuzz import models


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and start what it names."""
    parser = argparse.ArgumentParser("python -m fuzz", description="Differential fuzzing of byoc.")
    commands = parser.add_subparsers(dest="command", required=True)
    models.add_arguments(commands.add_parser("models", help="random models through every backend"))
    options = parser.parse_args(arguments)
    return models.main(options)


if __name__ == "__main__":
    sys.exit(main())
