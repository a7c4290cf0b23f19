"""Which of the names and behaviours that Relay's users rely on are here: tables, made by trying each.

A name counts as present when it resolves under ``tvm`` to something that is not below the graph. Names are written as
``relay.x`` (for ``tvm.relay.x``) or ``tvm.x``. A page holds one or more tables under headings, each with a rank, a name
and how often the name was counted (column ``T``); the page that :func:`page` makes is itself such a page.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from byoc.compat.tvm import install
from byoc.compat.tvm.behaviours import Behaviour, behaviours
from byoc.compat.tvm.below import BelowModule, Missing
from byoc.compat.tvm.homes import VENDORS
from byoc.errors import UserError

# why a name is not here, by the name or by what it begins with
REASONS = {
    "relay.op.contrib.te_target": "lowers composites by TE schedules, which are below the graph",
    "relay.op._make.torchop": "calls TorchScript from C++; no operator of byoc does",
    **{
        f"relay.op.contrib.partition_for_{vendor}": "a vendor's integration of TVM, which its users mount themselves"
        for vendor in VENDORS
    },
    "tvm.autotvm": "tunes schedules, which are below the graph",
    "tvm.build": "builds tensor-level functions, which are below the graph",
    "tvm.micro": "builds projects for boards, which are below the graph",
    "tvm.rpc": "reaches devices through TVM's C++ runtime, which is below the graph",
    "relay._ffi_api": "asks a vendor's C++ library",
}
NOT_WRITTEN = "not written yet"
COUNT = "T"


@dataclass(frozen=True)
class Entry:
    """A name, its rank, how often it was counted, and why it is missing (empty where it is present)."""

    rank: int
    name: str
    uses: int = 0
    missing: str = ""


@dataclass(frozen=True)
class RankedTable:
    """The names of one table, under its heading."""

    title: str
    entries: tuple[Entry, ...]

    @property
    def present(self) -> int:
        """How many of the names are here."""
        return sum(not entry.missing for entry in self.entries)

    @property
    def uses(self) -> int:
        """All counted uses."""
        return sum(entry.uses for entry in self.entries)

    @property
    def share(self) -> float:
        """The share of the counted uses that names which are here reach, in percent; 100 where nothing was counted."""
        reached = sum(entry.uses for entry in self.entries if not entry.missing)
        return 100 * reached / self.uses if self.uses else 100.0


def read_tables(path: str | Path) -> list[RankedTable]:
    """The tables of ranked names in *path*. Raises UserError where there is none."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give a table of ranked names") from error
    tables: list[tuple[str, list[Entry]]] = [("", [])]
    columns: list[str] = []
    for line in lines:
        if line.startswith("#"):
            tables.append((line.lstrip("# ").strip(), []))
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and "name" in cells:
            columns = cells
        elif line.startswith("|") and cells[0].isdigit():
            tables[-1][1].append(_entry(cells, columns))
    found = [RankedTable(title, tuple(entries)) for title, entries in tables if entries]
    if not found:
        raise UserError(f"{path} has no table of ranked names: its rows begin with | rank | `name` |")
    return found


def _entry(cells: Sequence[str], columns: Sequence[str]) -> Entry:
    counted = columns.index(COUNT) if COUNT in columns else None
    uses = int(cells[counted]) if counted is not None and counted < len(cells) else 0
    return Entry(int(cells[0]), cells[1].strip("`"), uses)


def resolve(name: str) -> object | None:
    """What *name* is under ``tvm``, or None.

    Importing is tried for as many parts as are modules. Where a package gives a function in place of its module of the
    same name (``tvm.topi.testing.one_hot``), the function is found by both names.
    """
    parts = (name if name.startswith("tvm.") else f"tvm.{name}").split(".")
    found: object = importlib.import_module("tvm")
    for count, part in enumerate(parts[1:], start=2):
        inside = _part(found, part, ".".join(parts[:count]))
        if inside is None:
            is_itself = not isinstance(found, types.ModuleType) and getattr(found, "__name__", None) == part
            return found if is_itself and count == len(parts) else None
        found = inside
    return found


def _part(found: object, part: str, path: str) -> object | None:
    """The attribute or sub-module *part* of *found*, which *path* would import; None without one."""
    try:
        if not hasattr(found, part) and isinstance(found, types.ModuleType):
            importlib.import_module(path)
        return getattr(found, part, None)
    except ModuleNotFoundError:
        return None


def survey(tables: Sequence[RankedTable]) -> list[RankedTable]:
    """The tables with what is missing and why; installs the compatibility."""
    install()
    return [replace(t, entries=tuple(replace(e, missing=_why_missing(e.name)) for e in t.entries)) for t in tables]


def _why_missing(name: str) -> str:
    found = resolve(name)
    if found is not None and not isinstance(found, (Missing, BelowModule)):
        return ""
    known = (reason for prefix, reason in REASONS.items() if name == prefix or name.startswith(prefix + "."))
    return next(known, NOT_WRITTEN)


def page(tables: Sequence[RankedTable], checked: Sequence[tuple[Behaviour, str]] = ()) -> str:
    """The tables as a page of Markdown, which can be read back by :func:`read_tables`.

    *checked* are behaviours, each with why it is missing, empty where it holds.
    """
    lines = [
        "# Relay's names under `byoc.compat.tvm`",
        "",
        "A name is present when it can be imported and is not one of those that only raise. A behaviour holds when its",
        "check in `byoc.compat.tvm.behaviours`, a few lines of a user's program, passes; the tests go further.",
        f"`{COUNT}` counts the tests of Relay's own suite that use a name.",
        "",
        "Made by `python -m byoc.compat.tvm --coverage docs/relay_names.md`; do not edit.",
    ]
    if checked:
        lines += ["", *_behaviour_section(checked)]
    for table in tables:
        lines += ["", *_section(table)]
    return "\n".join(lines) + "\n"


def check_behaviours() -> list[tuple[Behaviour, str]]:
    """Each behaviour with why it is missing, empty where it holds; some compile C, so that it takes seconds."""
    return [(behaviour, behaviour.missing()) for behaviour in behaviours()]


def _behaviour_section(checked: Sequence[tuple[Behaviour, str]]) -> list[str]:
    areas = dict.fromkeys(behaviour.area for behaviour, _ in checked)
    held = sum(not why for _, why in checked)
    lines = ["## Behaviours", "", f"{held} of the {len(checked)} behaviours hold.", "", "| area | behaviour | state |"]
    lines += ["|---|---|---|"]
    for area in areas:
        for behaviour, why in checked:
            if behaviour.area == area:
                lines.append(f"| {area} | {behaviour.sentence} | {'missing: ' + why if why else 'holds'} |")
    return lines


def _section(table: RankedTable) -> list[str]:
    return [
        f"## {table.title or 'Names'}",
        "",
        f"{table.present} of the {len(table.entries)} names are present; they are {table.share:.1f} % of "
        f"{table.uses} counted uses.",
        "",
        f"| # | name | {COUNT} | state |",
        "|---|---|---|---|",
        *(
            f"| {e.rank} | `{e.name}` | {e.uses} | {'missing: ' + e.missing if e.missing else 'present'} |"
            for e in table.entries
        ),
    ]
