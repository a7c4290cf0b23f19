"""The entry point of the command line: arguments, dispatch, and what a failure looks like.

Exit codes: 0 done; 1 an internal error; 2 a mistake in the command, the model or the inputs; 3 something that this
machine lacks (a compiler, a device).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence

from byoc import __version__
from byoc.driver.cli import compile_command, doctor_command, inspect_command, run_command, targets_command
from byoc.errors import CompilerNotFoundError, DeviceError, InternalError, UserError

EXIT_OK, EXIT_INTERNAL, EXIT_USER, EXIT_MACHINE = 0, 1, 2, 3
COMMANDS = {
    "compile": compile_command,
    "run": run_command,
    "inspect": inspect_command,
    "targets": targets_command,
    "doctor": doctor_command,
}


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    root = argparse.ArgumentParser(prog="byoc", description="Cut an ONNX model across a host and accelerators.")
    root.add_argument("--version", action="version", version=f"byoc {__version__}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        command.add_argument("--json", action="store_true", help="print one JSON object instead of text")
        module.add_arguments(command)
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code, and prints errors as one sentence to the standard error."""
    arguments = parser().parse_args(argv)
    command: Callable[[argparse.Namespace], tuple[Mapping[str, object], str, int]] = COMMANDS[arguments.command].run
    try:
        data, text, code = command(arguments)
    except (CompilerNotFoundError, DeviceError) as error:
        return _fail(arguments, error, EXIT_MACHINE)
    except UserError as error:
        return _fail(arguments, error, EXIT_USER)
    except InternalError as error:
        return _fail(arguments, error, EXIT_INTERNAL)
    print(json.dumps(data, indent=1) if arguments.json else text)
    return code


def _fail(arguments: argparse.Namespace, error: Exception, code: int) -> int:
    if arguments.json:
        print(json.dumps({"error": str(error), "kind": type(error).__name__}, indent=1))
    print(f"byoc {arguments.command}: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
