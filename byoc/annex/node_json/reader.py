"""Objects from JSON, as this package or TVM from 0.6 on wrote them: each node once, after those that it names."""

from __future__ import annotations

import base64
import binascii
import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypedDict, TypeVar

from byoc.annex.node_json.kinds import BY_KEY, FLAG, NODE, NUMBER, Kind, is_expression
from byoc.annex.node_json.writer import attribute_forms
from byoc.errors import ByocError, ParseError
from byoc.ir.attrs import Attrs, DictAttrs
from byoc.ir.collector import paused_collector
from byoc.ir.dims import Any, IntImm
from byoc.ir.env_func import EnvFunc
from byoc.ir.expr import BaseFunc, GlobalVar, RelayExpr, TypeData
from byoc.ir.module import IRModule
from byoc.ir.op import get_op
from byoc.ir.size_var import SizeVar, Var
from byoc.ir.span import SequentialSpan, SourceName, Span
from byoc.ir.types import GlobalTypeVar, Type
from byoc.relay.expr import Constant
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.params import read_array

T = TypeVar("T")


class _Keyed(TypedDict):
    type_key: str


class Row(_Keyed, total=False):
    """A node as it is written: its fields are texts, elements of lists and mappings places of other nodes."""

    attrs: Mapping[str, str]
    data: Sequence[int]
    keys: Sequence[str]
    repr_str: str
    global_key: str


# keys of before TVM 0.7, as they are now
_FORMERLY = {"StrMap": "Map", "Variable": "tir.Var", "SizeVar": "tir.SizeVar", "Any": "tir.Any"}


class Reader:
    """The nodes of one text, made as they are asked for."""

    def __init__(self, nodes: Sequence[Row], arrays: Sequence[str]):
        self._nodes, self._arrays = nodes, arrays
        self._made: dict[int, object] = {0: None}

    def read(self, root: int) -> object:
        """The object of node *root*. Raises ParseError for a node that names itself, or is of no known kind."""
        stack, open_nodes = [root], set()
        while stack:
            place = stack[-1]
            if place in self._made:
                stack.pop()
                continue
            missing = [p for p in self._needed(self._row(place)) if p not in self._made]
            if not missing:
                self._made[place] = self._make(self._row(place))
                stack.pop()
            elif place in open_nodes:
                raise ParseError(f"node {place} is made of itself")
            else:
                open_nodes.add(place)
                stack.extend(reversed(missing))
        return self._made[root]

    def _row(self, place: int) -> Row:
        if not 0 <= place < len(self._nodes):
            raise ParseError(f"there is no node {place}")
        return self._nodes[place]

    def _needed(self, row: Row) -> list[int]:
        if "data" in row:
            return [int(place) for place in row["data"]]
        forms, attrs = _forms(_key(row)), row.get("attrs", {})
        named = [text for name, text in attrs.items() if forms.get(name) == NODE]
        return [int(text) for text in named if _is_place(text)]

    def value(self, row: Row, name: str) -> object:
        """What stands under *name*; None where nothing does."""
        text = row.get("attrs", {}).get(name)
        form = _forms(_key(row)).get(name)
        if text is None:
            return None
        if form == NODE:  # before TVM 0.7 names were written as they are
            return self._made[int(text)] if _is_place(text) else text
        if form == FLAG:
            return bool(int(text))
        if form == NUMBER:
            return float(text) if any(c in text for c in ".einf") else int(text)
        return text

    def array(self, row: Row) -> NDArray:
        """The array that a node names."""
        text = self._arrays[int(row["attrs"]["data"])]
        return read_array(base64.b64decode(text, validate=True))

    def _make(self, row: Row) -> object:
        key = _key(row)
        kind = BY_KEY.get(key)
        if kind is not None:
            return self._of_kind(kind, row)
        if key in _MAKERS:
            return _MAKERS[key](self, row)
        if key.startswith("attrs."):
            cls = Attrs.class_named(key.removeprefix("attrs."))
            given = row.get("attrs", {})
            known = [name for name in attribute_forms(cls) if name in given]
            return cls(**{name: self.value(row, name) for name in known})
        raise ParseError(f"byoc has no object called {row['type_key']!r}")

    def _of_kind(self, kind: Kind, row: Row) -> object:
        values = {name: self.value(row, name) for name in kind.fields}
        if "var" in row.get("attrs", {}) and "name_hint" in kind.fields:
            former = self.value(row, "var")  # before TVM 0.7
            assert isinstance(former, Var)
            values["name_hint"] = former.name
        if is_expression(kind) or "span" in row.get("attrs", {}):
            return self._with_span(kind.make(**_lists(kind, values)), row)
        return kind.make(**_lists(kind, values))

    def _with_span(self, made: object, row: Row) -> object:
        span, ty = self.value(row, "span"), self.value(row, "_checked_type_")
        if span is not None and hasattr(made, "span"):
            made.span = span
        if ty is not None and isinstance(made, RelayExpr):
            made._checked_type = _as(Type, ty)
        return made


_LISTS = frozenset(
    (
        "shape",
        "fields",
        "arg_types",
        "type_params",
        "type_constraints",
        "args",
        "type_vars",
        "constructors",
        "inputs",
        "params",
        "clauses",
        "patterns",
        "type_args",
        "spans",
    )
)


def _lists(kind: Kind, values: dict[str, object]) -> dict[str, object]:
    """A list that is not there is empty."""
    return {name: () if value is None and name in _LISTS else value for name, value in values.items()}


def _key(row: Row) -> str:
    """A node's key as TVM calls it now, without ``relay.``."""
    key = str(row["type_key"]).removeprefix("relay.")
    return _FORMERLY.get(key, key)


def _is_place(text: object) -> bool:
    return str(text).isdigit()


@functools.cache
def _forms(key: str) -> Mapping[str, str]:
    """The form of each field of the nodes of *key*."""
    if key in BY_KEY:
        return {**BY_KEY[key].fields, "span": NODE, "_checked_type_": NODE, "var": NODE}
    if key.startswith("attrs."):
        return attribute_forms(Attrs.class_named(key.removeprefix("attrs.")))
    return dict.fromkeys(_NODE_FIELDS.get(key, ()), NODE)


_NODE_FIELDS = {
    "DictAttrs": ("__dict__",),
    "Constant": ("_checked_type_", "span"),
    "IRModule": ("attrs", "functions", "global_type_var_map_", "global_var_map_", "type_definitions"),
}


def _as(kind: type[T], value: object) -> T:
    """*value*, which is of *kind*. Raises ParseError for another."""
    if not isinstance(value, kind):
        raise ParseError(f"a {kind.__name__} is needed, got {value!r}")
    return value


def _span(value: object) -> Span | SequentialSpan:
    return value if isinstance(value, SequentialSpan) else _as(Span, value)


def _pairs(value: object) -> Iterable[tuple[object, object]]:
    """The keys and values of a mapping, or of none."""
    return _as(dict, value).items() if value else ()


def _attributes(value: object) -> dict[str, object]:
    """What is known by name, of a mapping or of attributes of any name."""
    return {str(name): found for name, found in (value.items() if isinstance(value, DictAttrs) else _pairs(value))}


def _elements(reader: Reader, row: Row) -> list[object]:
    return [reader._made[int(place)] for place in row.get("data", ())]


def _mapping(reader: Reader, row: Row) -> dict[object, object]:
    values = _elements(reader, row)
    if "keys" in row:
        return dict(zip(row["keys"], values, strict=True))
    return dict(zip(values[::2], values[1::2], strict=True))


def _module(reader: Reader, row: Row) -> IRModule:
    functions = {
        v if isinstance(v, str) else _as(GlobalVar, v): _as(BaseFunc, f)
        for v, f in _pairs(reader.value(row, "functions"))
    }
    types = {_as(GlobalTypeVar, v): _as(TypeData, d) for v, d in _pairs(reader.value(row, "type_definitions"))}
    return IRModule(functions, types, _attributes(reader.value(row, "attrs")))


def _integer(reader: Reader, row: Row) -> int:
    attrs = row["attrs"]
    return bool(int(attrs["value"])) if attrs["dtype"] == "bool" else IntImm(attrs["dtype"], int(attrs["value"]))


def _size(cls: type[Var], row: Row) -> Var:
    attrs = row["attrs"]
    return cls(attrs["name"], attrs["dtype"])


def _constant(reader: Reader, row: Row) -> Constant:
    span = reader.value(row, "span")
    return Constant(reader.array(row), None if span is None else _span(span))


def _named(row: Row) -> str:
    return str(row.get("repr_str", row.get("global_key", "")))


_MAKERS: dict[str, Callable[[Reader, Row], object]] = {
    "Array": lambda reader, row: tuple(_elements(reader, row)),
    "Map": _mapping,
    "runtime.String": lambda reader, row: _named(row),
    "IntImm": _integer,
    "FloatImm": lambda reader, row: float(row["attrs"]["value"]),
    "tir.Any": lambda reader, row: Any(row.get("attrs", {}).get("name", "")),
    "tir.Var": lambda reader, row: _size(Var, row),
    "tir.SizeVar": lambda reader, row: _size(SizeVar, row),
    "Op": lambda reader, row: get_op(_named(row)),
    "EnvFunc": lambda reader, row: EnvFunc.get(_named(row)),
    "SourceName": lambda reader, row: SourceName(_named(row)),
    "DictAttrs": lambda reader, row: DictAttrs(_attributes(reader.value(row, "__dict__"))),
    "IRModule": _module,
    "Constant": _constant,
    "runtime.NDArray": lambda reader, row: reader.array(row),
}


@paused_collector()
def load_json(json_str: str) -> object:
    """What :func:`save_json`, here or of TVM, wrote. Raises ParseError for another text. Source: ``load_json``."""
    try:
        data = json.loads(json_str)
        return Reader(data["nodes"], data.get("b64ndarrays", [])).read(int(data["root"]))
    except ByocError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, binascii.Error) as error:
        raise ParseError(f"this is not what tvm.ir.save_json writes ({type(error).__name__}: {error})") from error
