"""``python -m byoc.compat.tvm``: run a script, a module, or pytest where ``import tvm`` is byoc.

python -m byoc.compat.tvm [--mount FOLDER] [--emulate LIBRARY] script.py [arguments]
python -m byoc.compat.tvm [--mount FOLDER] [--emulate LIBRARY] -m pytest [arguments]
python -m byoc.compat.tvm --coverage FILE
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from byoc.compat.tvm import emulate, install, mount
from byoc.compat.tvm.coverage import check_behaviours, page, read_tables, survey
from byoc.errors import UserError

PYTEST_PLUGIN = "tvm.testing.plugin"


def parser() -> argparse.ArgumentParser:
    """The command's arguments; what follows the script or module is its own."""
    made = argparse.ArgumentParser(prog="python -m byoc.compat.tvm", description="Run code written for TVM's Relay.")
    made.add_argument("--mount", action="append", default=[], metavar="FOLDER", help="modules of tvm.relay.op.contrib")
    made.add_argument("--emulate", action="append", default=[], metavar="LIBRARY", help="emulate it, as tensorrt")
    what = made.add_mutually_exclusive_group()
    what.add_argument("--coverage", metavar="FILE", help="print which names in FILE, and behaviours of Relay, are here")
    what.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module, such as pytest")
    made.add_argument("script", nargs=argparse.REMAINDER, help="a script and its arguments")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code. What the script raises is raised."""
    options = parser().parse_args(arguments)
    try:
        install()
        for folder in options.mount:
            mount(folder)
        for library in options.emulate:
            emulate(library)
        if options.coverage:
            print(page(survey(read_tables(options.coverage)), check_behaviours()), end="")
            return 0
        if not options.module and not options.script:
            raise UserError("give a script, or -m and a module")
        if not options.module and not Path(options.script[0]).is_file():
            raise UserError(f"{options.script[0]} is not a file: give the script to run")
    except UserError as error:
        print(f"byoc.compat.tvm: {error}", file=sys.stderr)
        return 2
    if options.module:
        return _run_module(options.module)
    sys.argv = list(options.script)
    sys.path.insert(0, str(Path(options.script[0]).resolve().parent))
    runpy.run_path(options.script[0], run_name="__main__")
    return 0


def _run_module(words: Sequence[str]) -> int:
    name, *rest = words
    if name == "pytest":
        rest = ["-p", PYTEST_PLUGIN, *rest]
    sys.argv = [name, *rest]
    sys.path.insert(0, "")
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
