"""What ``tvm.ir`` has beside byoc's ``ir``: nodes by key, and programs as JSON."""

from __future__ import annotations

import json

from byoc.errors import ParseError, UserError
from byoc.ir.attrs import Attrs, DictAttrs
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.registry import get_global_func
from byoc.relay.expr import Function
from byoc.relay.text import astext, parse, parse_untyped


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


def save_json(node: IRModule | Function) -> str:
    """A module or a function as JSON, by its text. Raises UserError for anything else. Source: ``tvm.ir.save_json``."""
    if not isinstance(node, (IRModule, Function)):
        raise UserError(f"save_json takes a module or a function, got {type(node).__name__}")
    mod = node if isinstance(node, IRModule) else IRModule.from_expr(node)
    typed = all(func.checked_type_ is not None for func in mod.functions.values())
    return json.dumps({"kind": type(node).__name__, "typed": typed, "text": astext(mod, True)}, indent=1)


def load_json(json_str: str) -> IRModule | RelayExpr:
    """What :func:`save_json` wrote. Raises ParseError for another text. Source: ``tvm.ir.load_json``."""
    try:
        data = json.loads(json_str)
        kind, typed, text = data["kind"], data["typed"], data["text"]
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError(f"this is not what tvm.ir.save_json of byoc writes ({error})") from error
    mod = parse(text) if typed else parse_untyped(text)
    return mod if kind == "IRModule" else mod["main"]


class EnvFunc:
    """A global function by its name. Source: ``tvm.ir.EnvFunc``."""

    def __init__(self, name: str):
        self.name = name
        self._function = get_global_func(name)

    @staticmethod
    def get(name: str) -> EnvFunc:
        """The function *name*. Raises RegistryError where there is none."""
        return EnvFunc(name)

    def __call__(self, *args: object) -> object:
        return self._function(*args)  # type: ignore[misc]


__all__ = ["EnvFunc", "attrs_classes", "load_json", "make_node", "save_json"]
