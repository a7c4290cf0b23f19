"""Writes the tables of names that are registered by modules which are imported when they are asked for, and stubs.

In ``byoc/relay`` the operators (``op/operators.txt``), the operators of ONNX that have converters
(``frontend/onnx/converters.txt``), global functions and options of pass contexts. Every module there is imported, and
watched; ``facades.py`` says what of it stands in stubs. After a new operator, pass or converter, run
``python -m tools.health.deferred_names``.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar
from unittest import mock

from byoc.ir.registry import DeferredRegistry
from tools.health.facades import passes_made, stubs
from tools.health.sources import ROOT, modules

RELAY = "byoc.relay"
FOLDER = "byoc/relay"
FRONTEND = f"{RELAY}.frontend.onnx"
PASSES = "byoc/ir/passes/own_passes.txt"  # those that Relay has not
# where operators are made: other modules may add to them when they are imported, as vendors' do
ROOMS = tuple(f"{RELAY}.{room}" for room in ("op", "qnn.op", "qnn.lowering", "qnn.legalizations"))
Table = dict[str, list[str]]  # module to names
T = TypeVar("T")


def tables() -> dict[str, str]:
    """File, from the root, to what should stand in it, as a process finds it that has not imported the modules yet."""
    command = [sys.executable, "-m", "tools.health.deferred_names", "--print"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def watched() -> dict[str, str]:
    """What :func:`tables` gives, found by importing the modules here."""
    from byoc.ir.op import OPS, Op
    from byoc.ir.passes.pass_context import CONFIG_OPTIONS
    from byoc.ir.passes.pass_names import RELAY_PASSES
    from byoc.ir.registry import GLOBAL_FUNCTIONS

    completed: Table = {}  # the operators to which a module gives attributes
    set_attr = Op.set_attr

    def setting(op: Op, key: str, value: object, plevel: int = 10, owner: str = "") -> None:
        _note(completed, op.name)
        set_attr(op, key, value, plevel, owner)

    with (
        # what is not whole waits, with attributes, for the module that registers it
        _registrations(OPS, lambda name, op: op.rel is not None) as made,
        # passes are registered by their package, by the names of its stub
        _registrations(GLOBAL_FUNCTIONS, lambda name, _: not name.startswith("relay._transform.")) as functions,
        _registrations(CONFIG_OPTIONS, lambda name, _: True) as options,
        mock.patch.object(Op, "set_attr", setting),
    ):
        converted = _converters_of(sorted(name for name in modules() if name.startswith(f"{RELAY}.")))
    passes = passes_made()
    inside = {m: names for m, names in completed.items() if any(m == r or m.startswith(f"{r}.") for r in ROOMS)}
    more = {m: [name for name in names if name not in made.get(m, [])] for m, names in inside.items()}
    return {
        # those that complete operators stand last, in the order in which they can be imported
        f"{FOLDER}/op/operators.txt": _text(dict(sorted(made.items()))) + _text(more),
        f"{FOLDER}/functions.txt": _text(dict(sorted(functions.items()))),
        f"{FOLDER}/config_options.txt": _text(dict(sorted(options.items()))),
        f"{FOLDER}/frontend/onnx/converters.txt": _text(dict(sorted(converted.items())), FRONTEND),
        PASSES: "".join(f"{name}\n" for name in sorted({name for _, name in passes} - RELAY_PASSES)),
        **stubs(made, passes),
    }


@contextmanager
def _registrations(registry: DeferredRegistry[T], counts: Callable[[str, T], bool]) -> Iterator[Table]:
    """What modules register inside, where it *counts*, in a registry that defers nothing meanwhile."""
    table: Table = {}
    register = registry.register

    def registering(name: str, value: T, *, where: str = "", override: bool = False, source: str = "") -> None:
        if counts(name, value):
            _note(table, name)
        register(name, value, where=where, override=override, source=source)

    with mock.patch.object(registry, "register", registering), mock.patch.object(registry, "defer"):
        yield table


def _converters_of(names: Sequence[str]) -> Table:
    """Import the modules *names*; each with the operators of ONNX for which it registers converters."""
    from byoc.relay.frontend.onnx import registry

    converted: Table = {}
    converter = registry.converter

    def converting(*op_types: str, since: int = 1, domain: str = "") -> Callable[..., object]:
        for name in op_types:
            _note(converted, f"{domain}:{name}" if domain else name)
        return converter(*op_types, since=since, domain=domain)

    with mock.patch.object(registry, "converter", converting):
        for name in names:
            importlib.import_module(name)
    return converted


def _note(table: Table, name: str) -> None:
    """Put *name* under the module that is being imported."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    assert frame is not None, f"{name} is made by no module"
    names = table.setdefault(frame.f_globals["__name__"], [])
    if name not in names:
        names.append(name)


def _text(table: Table, package: str = RELAY) -> str:
    lines = ((module.removeprefix(f"{package}."), names) for module, names in table.items() if names)
    return "".join(f"{module}: {' '.join(names)}\n" for module, names in lines)


def main() -> None:
    """Write the tables, or print them as JSON."""
    if sys.argv[1:] == ["--print"]:
        print(json.dumps(watched()))
        return
    for file, text in tables().items():
        (ROOT / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
