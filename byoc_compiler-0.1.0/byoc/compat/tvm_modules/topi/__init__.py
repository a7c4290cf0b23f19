"""``tvm.topi``: its schedules and computations are below the graph; its references in numpy are here."""

from __future__ import annotations

import importlib

from byoc.compat.tvm.below import Missing


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in ("testing", "utils"):
        return importlib.import_module(f"tvm.topi.{name}")
    return Missing(f"tvm.topi.{name}")
