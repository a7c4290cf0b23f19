"""What ``tvm.ir`` has beside byoc's ``ir``: nodes by key."""

from __future__ import annotations

from byoc.annex.node_json import load_json, save_json
from byoc.compat.tvm_modules.ir import test_attrs
from byoc.errors import RegistryError, UserError
from byoc.ir.attrs import Attrs, DictAttrs
from byoc.ir.env_func import EnvFunc


def make_node(type_key: str, **kwargs: object) -> Attrs | DictAttrs:
    """The attributes called *type_key* (``relay.attrs.Conv2DAttrs``, ``DictAttrs``) with the given values.

    Raises UserError for another kind of node. Source: ``tvm.ir.make_node``.
    """
    name = type_key.rpartition(".")[2]
    if name == "DictAttrs":
        return DictAttrs(kwargs)
    try:
        attrs_type = Attrs.class_named(name)
    except RegistryError as error:
        raise UserError(f"byoc makes attributes by key, and has none called {type_key!r}") from error
    return attrs_type(**kwargs)


__all__ = ["EnvFunc", "load_json", "make_node", "save_json"]
