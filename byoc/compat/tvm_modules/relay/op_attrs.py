"""The attribute classes of all operators by name. Source: ``relay.op.op_attrs``."""

from __future__ import annotations

from byoc.compat.tvm_modules.ir import attrs_classes
from byoc.ir.attrs import Attrs

# TVM has one class where byoc names it by the operator's family
_NAMES = {"GlobalPool2DAttrs": ("GlobalPool2DAttrs", "GlobalPoolAttrs")}


def __getattr__(name: str) -> type[Attrs]:
    classes = attrs_classes()
    for candidate in _NAMES.get(name, (name,)):
        if candidate in classes:
            return classes[candidate]
    raise AttributeError(f"no operator of byoc has attributes called {name}")
