"""Quantized operators, how they are lowered, and their passes. Source: ``relay.qnn``."""

from __future__ import annotations

import importlib
import types
from typing import TYPE_CHECKING

from byoc.relay.qnn import lowering, op
from byoc.relay.qnn.op import legalizations

if TYPE_CHECKING:
    from byoc.relay.qnn import transform as transform

__all__ = ["legalizations", "lowering", "op"]


def __getattr__(name: str) -> types.ModuleType:
    if name == "transform":  # passes are loaded on first use
        return importlib.import_module("byoc.relay.qnn.transform")
    raise AttributeError(f"byoc.relay.qnn has no name {name!r}; it has {', '.join(__all__)} and transform")
