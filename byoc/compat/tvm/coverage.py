"""Which of the names that Relay's users rely on are here: a table, made by looking each one up.

A name counts as present when it resolves under ``tvm`` to something that is not below the graph. Names are written as
``relay.x`` (for ``tvm.relay.x``) or ``tvm.x``.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from byoc.compat.tvm import install
from byoc.compat.tvm.below import BelowModule, Missing
from byoc.errors import UserError

_ROW = re.compile(r"^\| (\d+) \| `((?:relay|tvm)\.[\w.]+)` \|", re.MULTILINE)
_FIRST_TABLE_ENDS = re.compile(r"^## 2\.", re.MULTILINE)

# why a name is not here, by the name or by what it begins with
REASONS = {
    "relay.op.contrib.te_target": "lowers composites by TE schedules, which are below the graph",
    "relay.op._make.torchop": "calls TorchScript from C++; no operator of byoc does",
    "tvm.build": "builds tensor-level functions, which are below the graph",
    "tvm.micro": "runs C on microcontroller simulators, which are below the graph",
    "tvm.testing.aot": "compiles and runs TVM's ahead-of-time C, which is below the graph",
    "relay._ffi_api": "asks a vendor's C++ library",
}
NOT_WRITTEN = "not written yet"


@dataclass(frozen=True)
class Entry:
    """A name, its rank, and why it is missing (empty where it is present)."""

    rank: int
    name: str
    missing: str = ""


def read_names(path: str | Path) -> list[tuple[int, str]]:
    """The ranked names of the first table in *path*. Raises UserError where there is none."""
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give a table of ranked names") from error
    names = [(int(rank), name) for rank, name in _ROW.findall(_FIRST_TABLE_ENDS.split(text)[0])]
    if not names:
        raise UserError(f"{path} has no table of ranked names: its rows begin with | rank | `name` |")
    return names


def resolve(name: str) -> object | None:
    """What *name* is under ``tvm``, or None. Importing is tried for as many parts as are modules."""
    parts = (name if name.startswith("tvm.") else f"tvm.{name}").split(".")
    found: object = importlib.import_module("tvm")
    for count, part in enumerate(parts[1:], start=2):
        if not hasattr(found, part):
            try:
                importlib.import_module(".".join(parts[:count]))
            except ModuleNotFoundError:
                return None
            if not hasattr(found, part):
                return None
        found = getattr(found, part)
    return found


def survey(names: Sequence[tuple[int, str]]) -> list[Entry]:
    """An entry for each name; installs the compatibility."""
    install()
    return [Entry(rank, name, _why_missing(name)) for rank, name in names]


def _why_missing(name: str) -> str:
    found = resolve(name)
    if found is not None and not isinstance(found, (Missing, BelowModule)):
        return ""
    known = (reason for prefix, reason in REASONS.items() if name == prefix or name.startswith(prefix + "."))
    return next(known, NOT_WRITTEN)


def table(entries: Sequence[Entry]) -> str:
    """The entries as a page of Markdown, which can be read back by :func:`read_names`."""
    present = sum(not entry.missing for entry in entries)
    lines = [
        "# Relay's names under `byoc.compat.tvm`",
        "",
        f"{present} of the {len(entries)} base names are present. A name is present when it can be",
        "imported and is not one of those that only raise; that it behaves is for the tests to say.",
        "",
        "Made by `python -m byoc.compat.tvm --coverage docs/relay_names.md`; do not edit.",
        "",
        "| rank | name | state |",
        "|---|---|---|",
        *(f"| {e.rank} | `{e.name}` | {'missing: ' + e.missing if e.missing else 'present'} |" for e in entries),
    ]
    return "\n".join(lines) + "\n"
