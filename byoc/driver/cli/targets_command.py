"""``byoc targets``: the backends that are known, and whether they work here."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from byoc.codegen.backend import backend_names, get_backend
from byoc.errors import UserError

HELP = "list the targets that models can be compiled for"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """``byoc targets`` has no options of its own."""


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """One row per backend; a broken one is a row with its error."""
    rows = [describe(name) for name in backend_names()]
    width = max((len(str(r["name"])) for r in rows), default=0)
    lines = [f"{r['name']!s:{width}}  {r['state']!s:11}  {r['about']}" for r in rows]
    return {"targets": rows}, "\n".join(lines), 0


def describe(name: str) -> dict[str, object]:
    """A backend's name, state (``ready``, ``unavailable`` or ``broken``), and what it is or what is wrong."""
    try:
        backend = get_backend(name)
        problem = backend.unavailable()
    except UserError as error:
        return {"name": name, "state": "broken", "about": str(error)}
    except Exception as error:  # a vendor's code may raise anything, and the other rows are to be seen
        return {"name": name, "state": "broken", "about": f"{type(error).__name__}: {error}"}
    text = (type(backend).__doc__ or "no description").strip().splitlines()[0].replace("``", "")
    return {"name": name, "state": "unavailable" if problem else "ready", "about": problem or text}
