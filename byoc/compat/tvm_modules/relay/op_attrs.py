"""The attribute classes of all operators by name. Source: ``relay.op.op_attrs``."""

from __future__ import annotations

from byoc.compat.tvm_modules.ir import attrs_classes
from byoc.ir.attrs import Attrs


def __getattr__(name: str) -> type[Attrs]:
    classes = attrs_classes()
    if name in classes:
        return classes[name]
    raise AttributeError(f"no operator of byoc has attributes called {name}")
