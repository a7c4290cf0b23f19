"""``byoc targets``: the backends that are known, and whether they work here; of one of them, what it supports."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from byoc.cli.plan_command import write
from byoc.contract.checks import level_of, why_unavailable
from byoc.contract.registration import backend_names, get_backend
from byoc.errors import UserError
from byoc.runtime.core.device import HardwareLevel

HELP = "list the targets that models can be compiled for, or what one of them supports"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc targets``."""
    command.add_argument(
        "name", nargs="?", help="a target: its constraints, its patterns, and what it says of every operator"
    )
    command.add_argument("--markdown", action="store_true", help="of one target: as a page of documentation")
    command.add_argument("-o", "--output", metavar="FILE", help="of one target: write it to a file")


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """One row per backend, a broken one with its error; or the support table of the one that is named."""
    if arguments.name:
        return _supported(arguments)
    if arguments.markdown or arguments.output:
        raise UserError("--markdown and --output are about one target: byoc targets NAME --markdown")
    rows = [describe(name) for name in backend_names()]
    width = max((len(str(r["name"])) for r in rows), default=0)
    lines = [f"{r['name']!s:{width}}  {_shown(r)!s:12} {r['about']}" for r in rows]
    return {"targets": rows}, "\n".join(lines), 0


def _supported(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    from byoc.contract.support_table import support_table  # all operators are loaded for it

    table = support_table(get_backend(arguments.name))
    text = table.markdown().rstrip("\n") if arguments.markdown else str(table)
    if arguments.output:
        write(Path(arguments.output), f"{text}\n")
        text = f"wrote {arguments.output}: {table.counted()}"
    return table.to_json(), text, 0


def _shown(row: Mapping[str, object]) -> object:
    """The state of a target, or what its regions can do here where they do not run on the device itself."""
    return row["level"] if row["level"] in (HardwareLevel.COMPILE_ONLY, HardwareLevel.EMULATED) else row["state"]


def describe(name: str) -> dict[str, object]:
    """A backend's name, state (``ready``, ``unavailable`` or ``broken``), level, and what it is or what is wrong."""
    broken = {"name": name, "state": "broken", "level": HardwareLevel.UNAVAILABLE.value}
    try:
        backend = get_backend(name)
        problem, level = why_unavailable(backend), level_of(backend)
    except UserError as error:
        return {**broken, "about": str(error)}
    except Exception as error:  # a vendor's code may raise anything, and the other rows are to be seen
        return {**broken, "about": f"{type(error).__name__}: {error}"}
    text = (type(backend).__doc__ or "no description").strip().splitlines()[0].replace("``", "")
    state = "unavailable" if problem else "ready"
    return {"name": name, "state": state, "level": level.value, "about": problem or text}
