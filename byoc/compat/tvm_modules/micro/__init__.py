"""``tvm.micro``: what ahead-of-time tests run with; projects for boards are below the graph. Source: ``tvm.micro``."""

from __future__ import annotations

from byoc.compat.tvm.below import Missing


def __getattr__(name: str) -> Missing:
    if name.startswith("__") or name == "testing":  # a sub-module, which is there once it is imported
        raise AttributeError(name)
    return Missing(f"tvm.micro.{name}")
