"""What ``tvm.ir`` has beside byoc's ``ir``: nodes by key."""

from __future__ import annotations

from byoc.compat.tvm_modules.ir import test_attrs  # noqa: F401 - a class that is found by its name
from byoc.errors import UserError
from byoc.ir.attrs import Attrs, DictAttrs
from byoc.ir.env_func import EnvFunc
from byoc.relay.node_json import load_json, save_json


def attrs_classes() -> dict[str, type[Attrs]]:
    """The attribute classes of all operators, by their name."""
    found: dict[str, type[Attrs]] = {}
    stack = list(Attrs.__subclasses__())
    while stack:
        cls = stack.pop()
        found[cls.__name__] = cls
        stack.extend(cls.__subclasses__())
    return found


def make_node(type_key: str, **kwargs: object) -> Attrs | DictAttrs:
    """The attributes called *type_key* (``relay.attrs.Conv2DAttrs``, ``DictAttrs``) with the given values.

    Raises UserError for another kind of node. Source: ``tvm.ir.make_node``.
    """
    name = type_key.rpartition(".")[2]
    if name == "DictAttrs":
        return DictAttrs(kwargs)
    classes = attrs_classes()
    if name not in classes:
        raise UserError(f"byoc makes attributes by key, and has none called {type_key!r}")
    return classes[name](**kwargs)  # type: ignore[arg-type]


__all__ = ["EnvFunc", "attrs_classes", "load_json", "make_node", "save_json"]
