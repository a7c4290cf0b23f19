"""Objects to JSON. Nodes are numbered in the order in which they are met, from the root; 0 is no object."""

from __future__ import annotations

import base64
import json
import typing
from collections.abc import Mapping

from byoc.annex.node_json.kinds import BY_CLASS, FLAG, NODE, NUMBER, Kind
from byoc.errors import UserError
from byoc.ir.attrs import Attrs, DictAttrs
from byoc.ir.collector import paused_collector
from byoc.ir.dims import Any
from byoc.ir.env_func import EnvFunc
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.size_var import Var
from byoc.ir.span import SourceName
from byoc.ir.types import Type
from byoc.relay.expr import Constant
from byoc.relay.expr import Var as LocalVar
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.params import array_bytes

VERSION = "0.18.0"
_PLAIN = {bool: FLAG, int: NUMBER, float: NUMBER, str: "word"}


_FORMS: dict[type[Attrs], dict[str, str]] = {}  # what attribute_forms has found


def attribute_forms(cls: type[Attrs]) -> dict[str, str]:
    """How each attribute of a class is written: numbers and texts as they are, lists and what may be None as nodes."""
    if cls not in _FORMS:
        _FORMS[cls] = {name: _PLAIN.get(ty, NODE) for name, ty in typing.get_type_hints(cls).items()}
    return _FORMS[cls]


class NodeWriter:
    """The nodes of one text, in the order in which they are met."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, object]] = [{"type_key": ""}]
        self.arrays: list[str] = []
        self._index: dict[object, int] = {}
        self._kept: list[object] = []  # alive as long as their identity is a key
        self._pending: list[tuple[object, int]] = []

    def write(self, root: object) -> int:
        """The number of *root*, with all that it is made of written."""
        number = self._number(root)
        while self._pending:
            value, place = self._pending.pop()
            before = len(self._pending)
            self.nodes[place].update(self._content(value))
            self._pending[before:] = reversed(self._pending[before:])
        return number

    def _number(self, value: object) -> int:
        if value is None:
            return 0
        plain = isinstance(value, (bool, int, float, str))
        key = (type(value), value) if plain else id(value)
        if key not in self._index:
            self._index[key] = len(self.nodes)
            self._kept.append(value)
            self._pending.append((value, len(self.nodes)))
            self.nodes.append({})
        return self._index[key]

    def _ref(self, value: object) -> str:
        return str(self._number(value))

    def _content(self, value: object) -> dict[str, object]:
        kind = BY_CLASS.get(type(value))
        if kind is not None:
            return {"type_key": kind.key, "attrs": self._fields(kind, value)}
        for cls, write in _WRITERS.items():
            if isinstance(value, cls):
                return write(self, value)
        raise UserError(f"save_json writes expressions, types, attributes and modules, got {type(value).__name__}")

    def _fields(self, kind: Kind, value: object) -> dict[str, str]:
        texts = {name: self._text(kind.fields[name], part) for name, part in kind.values(value).items()}
        if isinstance(value, RelayExpr):
            texts.update(_checked_type_=self._ref(_type_of(value)), virtual_device_="0")
        if hasattr(value, "span"):
            texts["span"] = self._ref(value.span)
        return dict(sorted(texts.items()))

    def _text(self, form: str, value: object) -> str:
        if form == NODE:
            return self._ref(value)
        return str(int(value)) if isinstance(value, int) else str(value)

    def attrs(self, value: Attrs) -> dict[str, object]:
        forms = attribute_forms(type(value))
        texts = {name: self._text(forms[name], part) for name, part in value.items()}
        return {"type_key": f"relay.attrs.{type(value).__name__}", "attrs": texts}

    def mapping(self, value: Mapping[object, object]) -> dict[str, object]:
        if all(isinstance(key, str) for key in value):
            return {"type_key": "Map", "keys": list(value), "data": [self._number(v) for v in value.values()]}
        return {"type_key": "Map", "data": [self._number(part) for pair in value.items() for part in pair]}

    def module(self, value: IRModule) -> dict[str, object]:
        fields = {
            "attrs": DictAttrs(value.attrs),
            "functions": dict(value.functions),
            "global_type_var_map_": {v.name_hint: v for v in value.get_global_type_vars()},
            "global_var_map_": {v.name_hint: v for v in value.get_global_vars()},
            "source_map": None,
            "type_definitions": dict(value.type_definitions),
        }
        return {"type_key": "IRModule", "attrs": {name: self._ref(part) for name, part in fields.items()}}

    def constant(self, value: Constant) -> dict[str, object]:
        self.arrays.append(base64.b64encode(array_bytes("a constant", value.data)).decode("ascii"))
        attrs = {
            "_checked_type_": self._ref(value.checked_type_),
            "data": str(len(self.arrays) - 1),
            "span": self._ref(value.span),
            "virtual_device_": "0",
        }
        return {"type_key": "relay.Constant", "attrs": attrs}

    def array(self, value: NDArray) -> dict[str, object]:
        self.arrays.append(base64.b64encode(array_bytes("an array", value)).decode("ascii"))
        return {"type_key": "runtime.NDArray", "attrs": {"data": str(len(self.arrays) - 1)}}


def _type_of(value: RelayExpr) -> Type | None:
    """The inferred type; that of a variable which is declared is its annotation, and is not written twice."""
    inferred = value.checked_type_
    return None if isinstance(value, LocalVar) and inferred is value._annotation else inferred


def _number_node(value: bool | int | float) -> dict[str, object]:
    if isinstance(value, float):
        attrs = {"dtype": getattr(value, "dtype", "float32"), "span": "0", "value": repr(float(value))}
        return {"type_key": "FloatImm", "attrs": attrs}
    plain = "bool" if isinstance(value, bool) else "int32" if abs(value) < 2**31 else "int64"
    attrs = {"dtype": getattr(value, "dtype", plain), "span": "0", "value": str(int(value))}
    return {"type_key": "IntImm", "attrs": attrs}


def _size_node(value: Any) -> dict[str, object]:
    attrs = {"dtype": getattr(value, "dtype", "int32"), "name": value.name, "span": "0"}
    key = type(value).__name__ if isinstance(value, Var) else "Any"
    return {"type_key": f"tir.{key}", "attrs": attrs}


_WRITERS: dict[type, typing.Callable[..., dict[str, object]]] = {
    bool: lambda writer, value: _number_node(value),
    int: lambda writer, value: _number_node(value),
    float: lambda writer, value: _number_node(value),
    str: lambda writer, value: {"type_key": "runtime.String", "repr_str": str(value)},
    tuple: lambda writer, value: {"type_key": "Array", "data": [writer._number(v) for v in value]},
    list: lambda writer, value: {"type_key": "Array", "data": [writer._number(v) for v in value]},
    DictAttrs: lambda writer, value: {"type_key": "DictAttrs", "attrs": {"__dict__": writer._ref(dict(value))}},
    dict: NodeWriter.mapping,
    Attrs: NodeWriter.attrs,
    Any: lambda writer, value: _size_node(value),
    Op: lambda writer, value: {"type_key": "Op", "repr_str": value.name},
    EnvFunc: lambda writer, value: {"type_key": "EnvFunc", "repr_str": value.name},
    SourceName: lambda writer, value: {"type_key": "SourceName", "repr_str": value.name},
    IRModule: NodeWriter.module,
    Constant: NodeWriter.constant,
    NDArray: NodeWriter.array,
}


@paused_collector()
def save_json(node: object) -> str:
    """*node* as JSON: an expression, a type, attributes, a module, or a list or mapping of them.

    Raises UserError for anything else. Source: ``tvm.ir.save_json``.
    """
    writer = NodeWriter()
    root = writer.write(node)
    encode = json.JSONEncoder().encode
    nodes = ",\n    ".join(map(encode, writer.nodes))
    rest = encode({"b64ndarrays": writer.arrays, "attrs": {"tvm_version": VERSION}})[1:-1]
    return f'{{\n  "root": {root},\n  "nodes": [\n    {nodes}\n  ],\n  {rest}\n}}'
