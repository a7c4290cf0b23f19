"""``python -m fuzz``: start a fuzzer, or run or reduce what one kept."""

from __future__ import annotations

import argparse
import importlib
import sys

from fuzz import models, single

# fuzzers with a command line of their own: name -> what it does
OTHERS = {
    "files": "artefacts, plans, boundaries and calibration files, damaged and edited",
    "importer": "ONNX files, damaged by bytes and by structure, or as coverage says",
}


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and start what it names."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in OTHERS:
        return importlib.import_module(f"fuzz.{given[0]}.run").main(given[1:])
    parser = argparse.ArgumentParser("python -m fuzz", description="Differential fuzzing of byoc.")
    commands = parser.add_subparsers(dest="command", required=True)
    models.add_arguments(commands.add_parser("models", help="random models through every backend"))
    single.add_arguments(commands.add_parser("replay", help="run cases that were kept"))
    single.add_reduce_arguments(commands.add_parser("reduce", help="make cases small, and print them as tests"))
    for name, help_text in OTHERS.items():
        commands.add_parser(name, help=help_text)
    options = parser.parse_args(given)
    return {"models": models.main, "replay": single.replay, "reduce": single.reduce_files}[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
