"""``python -m fuzz``: start a fuzzer."""

from __future__ import annotations

import argparse
import sys

from fuzz import models, single


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and start what it names."""
    parser = argparse.ArgumentParser("python -m fuzz", description="Differential fuzzing of byoc.")
    commands = parser.add_subparsers(dest="command", required=True)
    models.add_arguments(commands.add_parser("models", help="random models through every backend"))
    single.add_arguments(commands.add_parser("replay", help="run cases that were kept"))
    single.add_reduce_arguments(commands.add_parser("reduce", help="make cases small, and print them as tests"))
    options = parser.parse_args(arguments)
    return {"models": models.main, "replay": single.replay, "reduce": single.reduce_files}[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
