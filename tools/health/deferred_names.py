"""Writes the tables of names that are registered by modules which are imported when a name is asked for.

``byoc/relay/op/operators.txt`` has the operators, ``byoc/relay/functions.txt`` the global functions that modules of
Relay register, ``byoc/relay/frontend/onnx/converters.txt`` the operators of ONNX that have converters. Every such
module is imported, and watched. After a new operator or converter, run ``python -m tools.health.deferred_names``.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from unittest import mock

from tools.health.sources import ROOT, modules

RELAY = "byoc.relay"
OPERATORS, FUNCTIONS = ROOT / "byoc/relay/op/operators.txt", ROOT / "byoc/relay/functions.txt"
FRONTEND = f"{RELAY}.frontend.onnx"
CONVERTERS = ROOT / "byoc/relay/frontend/onnx/converters.txt"
# where operators are made: other modules may add to them when they are imported, as vendors' do
ROOMS = tuple(f"{RELAY}.{room}" for room in ("op", "qnn.op", "qnn.lowering", "qnn.legalizations"))
Table = dict[str, list[str]]  # module to names


def tables() -> dict[str, str]:
    """File, from the root, to what should stand in it, as a process finds it that has not imported the modules yet."""
    command = [sys.executable, "-m", "tools.health.deferred_names", "--print"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def watched() -> dict[str, str]:
    """What :func:`tables` gives, found by importing the modules here."""
    from byoc.ir.op import OPS, Op
    from byoc.ir.registry import GLOBAL_FUNCTIONS

    made: Table = {}  # the operators that a module registers
    completed: Table = {}  # those to which it gives attributes
    functions: Table = {}
    register, register_function, set_attr = OPS.register, GLOBAL_FUNCTIONS.register, Op.set_attr

    def registering(name: str, value: Op, *, where: str = "", override: bool = False, source: str = "") -> None:
        if value.rel is not None:  # else it waits, with attributes, for the module that registers it
            _note(made, name)
        register(name, value, where=where, override=override, source=source)

    def setting(op: Op, key: str, value: object, plevel: int = 10, owner: str = "") -> None:
        _note(completed, op.name)
        set_attr(op, key, value, plevel, owner)

    def naming(
        name: str, value: Callable[..., object], *, where: str = "", override: bool = False, source: str = ""
    ) -> None:
        if not name.startswith("relay._transform."):  # passes, which that package registers by the names of its stub
            _note(functions, name)
        register_function(name, value, where=where, override=override, source=source)

    with (
        mock.patch.object(OPS, "register", registering),
        mock.patch.object(GLOBAL_FUNCTIONS, "register", naming),
        mock.patch.object(Op, "set_attr", setting),
        mock.patch.object(OPS, "defer"),  # the tables that are written anew
        mock.patch.object(GLOBAL_FUNCTIONS, "defer"),
    ):
        converted = _converters_of(sorted(name for name in modules() if name.startswith(f"{RELAY}.")))
    inside = {m: names for m, names in completed.items() if any(m == r or m.startswith(f"{r}.") for r in ROOMS)}
    more = {m: [name for name in names if name not in made.get(m, [])] for m, names in inside.items()}
    return {
        OPERATORS.relative_to(ROOT).as_posix(): _text(dict(sorted(made.items())))
        + _text(more),  # after what they import
        FUNCTIONS.relative_to(ROOT).as_posix(): _text(dict(sorted(functions.items()))),
        CONVERTERS.relative_to(ROOT).as_posix(): _text(dict(sorted(converted.items())), FRONTEND),
    }


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
