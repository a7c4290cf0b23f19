"""The attribute classes of all operators by name. Source: ``relay.op.op_attrs``."""

from __future__ import annotations

from byoc.errors import RegistryError
from byoc.ir.attrs import Attrs


def __getattr__(name: str) -> type[Attrs]:
    try:
        return Attrs.class_named(name)
    except RegistryError as error:
        raise AttributeError(f"no operator of byoc has attributes called {name}") from error
