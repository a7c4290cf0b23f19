"""``tvm.contrib``: the executor over compiled graphs, and temporary folders."""

from __future__ import annotations

import importlib


def __getattr__(name: str) -> object:
    if name in ("graph_executor", "utils"):
        return importlib.import_module(f"tvm.contrib.{name}")
    raise AttributeError(f"tvm.contrib has no name {name!r} in byoc")
