"""``tvm.topi``: its schedules and computations are below the graph; its references in numpy are here."""

from __future__ import annotations

import importlib

from byoc.compat.tvm.below import Missing


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "testing":
        return importlib.import_module("tvm.topi.testing")
    return Missing(f"tvm.topi.{name}")
