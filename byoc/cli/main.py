"""The entry point of the command line: arguments, dispatch, and what a failure looks like.

Exit codes: 0 done; 1 an internal error; 2 a mistake in the command, the model or the inputs, or what ``certify``,
``bisect`` and ``compare`` found wrong; 3 something that this
machine lacks (a compiler, a device, memory); 130 interrupted; 141 nobody reads the output any more. With
``BYOC_DEBUG=1`` every error comes with its traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import functools
import importlib
import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

from byoc.base import __version__
from byoc.cli.exit_codes import EXIT_BROKEN_PIPE, EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_MACHINE, EXIT_USER
from byoc.cli.flags.backend_imports import IMPORTING, VARIABLE, import_backends
from byoc.cli.flags.backend_imports import add_arguments as add_imports
from byoc.errors import (
    CompilerNotFoundError,
    DeviceError,
    InternalError,
    OutOfMemoryError,
    UserError,
    vendors_failure,
)
from byoc.runtime.core.entry_points import DISTRIBUTION, install_command

DEBUG_VARIABLE = "BYOC_DEBUG"
SANITIZE_VARIABLE = "BYOC_SANITIZE"
_OF_THE_MACHINE = (
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EROFS,
)
COMMANDS = (
    "compile",
    "plan",
    "explain",
    "lint",
    "opt",
    "calibrate",
    "partition",
    "run",
    "profile",
    "export-c",
    "inspect",
    "sign",
    "verify",
    "targets",
    "doctor",
    "tune",
    "warm",
    "cache",
    "new-backend",
    "certify",
    "bisect",
    "compare",
)
_FOLDERS = {"cache": "device", "warm": "device", "certify": "checks", "bisect": "checks", "compare": "checks"}
_RUNNING = ("run", "compile", "profile")  # a backend's code, in this process
Command = Callable[[argparse.Namespace], tuple[Mapping[str, object], str, int]]
EPILOG = (
    "exit codes: 0 done, 1 internal error, 2 a mistake in the command, the model or the inputs, or what "
    "certify, bisect and compare found wrong, 3 something that this "
    f"machine lacks; {DEBUG_VARIABLE}=1 shows the traceback of an error; {SANITIZE_VARIABLE}=address (or undefined, "
    f"thread) has generated C check itself while it runs; {VARIABLE} names files and modules that register backends"
)


def command_module(name: str) -> ModuleType:
    """The module of a command: ``HELP``, ``add_arguments``, ``run``."""
    folder = f"{_FOLDERS[name]}." if name in _FOLDERS else ""
    try:
        return importlib.import_module(f"byoc.cli.{folder}{name.replace('-', '_')}_command")
    except ModuleNotFoundError as error:
        if not _is_left_out(error):
            raise
        return _left_out(name, error)


def _is_left_out(error: ModuleNotFoundError) -> bool:
    """Whether *error* is that a part of byoc is missing, as an installation may leave it out."""
    return (error.name or "").startswith("byoc.")


def _left_out(name: str, error: ModuleNotFoundError) -> ModuleType:
    """What stands for the module of a command that needs a part which is missing."""

    def fail(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
        raise error

    module = ModuleType(name)
    vars(module).update(
        HELP=f"not here: byoc is installed without {error.name}",
        add_arguments=lambda command: command.add_argument("words", nargs=argparse.REMAINDER),
        run=fail,
    )
    return module


def parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of the whole command line, or of the commands of these *names*."""
    about = "Cut an ONNX model across a host and accelerators."
    root = argparse.ArgumentParser(prog="byoc", description=about, epilog=EPILOG, allow_abbrev=False)
    root.add_argument("--version", action="version", version=f"byoc {__version__}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in names:
        module = command_module(name)
        command = commands.add_parser(name, help=module.HELP, description=module.HELP, allow_abbrev=False)
        command.add_argument("--json", action="store_true", help="print one JSON object instead of text")
        module.add_arguments(command)
        if name in IMPORTING:
            add_imports(command)
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code, and prints errors as one sentence to the standard error."""
    words = list(sys.argv[1:] if argv is None else argv)
    named = [w for w in words[:1] if w in COMMANDS]  # one command loads what it needs, not what all need
    arguments = argparse.Namespace(command=(*named, "")[0], json="--json" in words)  # until they are read
    command: Command
    try:
        arguments = parser(named or COMMANDS).parse_args(words)
        command = command_module(arguments.command).run
        with warnings.catch_warnings():
            warnings.showwarning = functools.partial(_warn, arguments.command, warnings.showwarning)
            if os.environ.get(SANITIZE_VARIABLE) and argv is None:
                importlib.import_module("byoc.cli.sanitized").start_again_where_needed()
            import_backends(arguments.command, arguments)
            data, text, code = _ran(command, arguments, is_alone=argv is None)
        print(json.dumps(data, indent=1) if arguments.json else text, flush=True)
        return code
    except BrokenPipeError:
        return _stop_writing()
    except KeyboardInterrupt:
        print(f"\nbyoc {arguments.command}: interrupted; nothing was written", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        return _fail(arguments, error)


def _ran(command: Command, arguments: argparse.Namespace, is_alone: bool) -> tuple[Mapping[str, object], str, int]:
    """What *command* gives. Raises InternalError where code of a backend asked Python to exit in it.

    Of a command that runs models, in a process that *is_alone*, another process reports what was running if it dies.
    """
    try:
        with contextlib.ExitStack() as around:
            if is_alone and arguments.command in _RUNNING:
                watched = importlib.import_module("byoc.runtime.region.watched").watched
                around.enter_context(watched(f"byoc {arguments.command}"))
                around.enter_context(importlib.import_module("byoc.cli.run_end").own_process())
            return command(arguments)
    except SystemExit as error:
        raise InternalError(f"while this command was at work, {vendors_failure(error)}") from error


def _warn(
    command: str, otherwise: Callable[..., None], message: Warning | str, category: type[Warning], *place: object
) -> None:
    """A warning of ours as one sentence, any other as Python shows it."""
    if category is UserWarning:
        print(f"byoc {command}: warning: {message}", file=sys.stderr)
    else:
        otherwise(message, category, *place)


def _fail(arguments: argparse.Namespace, error: Exception) -> int:
    code, sentence = diagnose(error)
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    print(f"{f'byoc {arguments.command}'.rstrip()}: {sentence}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"error": sentence, "kind": type(error).__name__, "exit_code": code}, indent=1))
    return code


def diagnose(error: Exception) -> tuple[int, str]:
    """The exit code of an error, and the sentence that is printed."""
    if isinstance(error, (CompilerNotFoundError, DeviceError)):
        return EXIT_MACHINE, str(error)
    if isinstance(error, OutOfMemoryError):
        return EXIT_MACHINE, str(error)
    if isinstance(error, MemoryError):
        return EXIT_MACHINE, (
            f"this process has too little memory ({str(error) or 'how much is not known'}); take smaller inputs, or "
            "allow it more"
        )
    if isinstance(error, UserError):
        return EXIT_USER, str(error)
    if isinstance(error, ModuleNotFoundError) and _is_left_out(error):
        return EXIT_MACHINE, f"byoc is installed without {error.name}, which this needs; install byoc whole"
    if isinstance(error, ModuleNotFoundError) and error.name in _required_packages():
        return EXIT_MACHINE, (
            f"this command needs the package {error.name}, which is not installed: pip install {error.name}, or "
            f"{install_command()} for all (byoc.runtime alone runs artefacts with numpy and cffi)"
        )
    lost = _unloaded(error)
    if lost:
        return EXIT_MACHINE, f"its parts cannot be loaded here: {lost}"
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        return EXIT_MACHINE, f"this machine refused what was needed ({error}); allow this process more, and try again"
    kind = "" if isinstance(error, InternalError) else f"{type(error).__name__}: "
    text = " ".join(str(error).split())
    return EXIT_INTERNAL, (
        f"internal error: {kind}{text}; this is a mistake in byoc or in a backend: "
        f"{DEBUG_VARIABLE}=1 shows where, please report it"
    )


def _required_packages() -> set[str]:
    """What an installation of byoc brings, by the names of their modules; none where it is no package."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return set()
    return {re.split(r"[^A-Za-z0-9_.-]", line, maxsplit=1)[0] for line in lines if "extra ==" not in line}


def _unloaded(error: BaseException | None) -> str:
    """What the dynamic linker says of a package's own library, as under a limit of memory; empty where it did not fail.

    Packages may raise errors of their own from that one (numpy 2.2: that this is its source directory).
    """
    while isinstance(error, ImportError):
        if "shared object" in str(error):
            return next(line for line in reversed(str(error).splitlines()) if line.strip()).strip()
        error = error.__cause__ or error.__context__
    return ""


def _stop_writing() -> int:
    """The reader of a pipe went away: leave quietly, and keep Python from complaining when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_BROKEN_PIPE


if __name__ == "__main__":
    sys.exit(main())
