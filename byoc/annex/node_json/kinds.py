"""What of each class of object is written: data that the writer and the reader share.

A field is another node (``node``), or text: a ``word``, a ``number`` or a ``flag``. Fields stand under TVM's names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from byoc.errors import ParseError
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr, TypeData
from byoc.ir.span import SequentialSpan, SourceName, Span
from byoc.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)
from byoc.relay.adt import Clause, Match, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from byoc.relay.expr import (
    Call,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    VarId,
)

Values = Mapping[str, object]
NODE, WORD, NUMBER, FLAG = "node", "word", "number", "flag"


@dataclass(frozen=True)
class Kind:
    """A class of objects: its key, its fields with their form, and how it is made of their values."""

    key: str
    cls: type
    fields: Mapping[str, str]
    make: Callable[..., object]
    get: Mapping[str, Callable[..., object]] | None = None  # of a node of *cls*

    def values(self, node: object) -> dict[str, object]:
        """The fields of *node*; what its class calls otherwise is found by ``get``."""
        found = self.get or {}
        return {name: found[name](node) if name in found else getattr(node, name) for name in self.fields}


def _nodes(*names: str, **others: str) -> dict[str, str]:
    return {**dict.fromkeys(names, NODE), **others}


def _var(vid: object, type_annotation: Type | None) -> Var:
    if not isinstance(vid, str):
        raise ParseError(f"a variable has an Id, got {vid!r}")
    return Var(vid, type_annotation)


def _constructor(name_hint: str, inputs: Sequence[Type], belong_to: GlobalTypeVar, tag: int) -> Constructor:
    made = Constructor(name_hint, inputs, belong_to)
    made.tag = tag
    return made


def _span(source_name: SourceName, line: int, column: int, end_line: int, end_column: int) -> Span:
    return Span(source_name, line, end_line, column, end_column)


_ANNOTATION = {"vid": lambda var: var.vid, "type_annotation": lambda var: var._annotation}

KINDS = (
    Kind("relay.TensorType", TensorType, _nodes("shape", dtype=WORD), TensorType),
    Kind("TupleType", TupleType, _nodes("fields"), TupleType),
    Kind("FuncType", FuncType, _nodes("arg_types", "ret_type", "type_params", "type_constraints"), FuncType),
    Kind("TypeVar", TypeVar, _nodes("name_hint", kind=NUMBER), lambda name_hint, kind: TypeVar(name_hint, kind)),
    Kind(
        "GlobalTypeVar",
        GlobalTypeVar,
        _nodes("name_hint", kind=NUMBER),
        lambda name_hint, kind: GlobalTypeVar(name_hint, kind),
    ),
    Kind("TypeCall", TypeCall, _nodes("func", "args"), TypeCall),
    Kind("IncompleteType", IncompleteType, _nodes(kind=NUMBER), IncompleteType),
    Kind("relay.RefType", RefType, _nodes("value"), RefType),
    Kind("TypeRelation", TypeRelation, _nodes("func", "args", "attrs", num_inputs=NUMBER), TypeRelation),
    Kind("TypeData", TypeData, _nodes("header", "type_vars", "constructors"), TypeData),
    Kind("relay.Constructor", Constructor, _nodes("name_hint", "inputs", "belong_to", tag=NUMBER), _constructor),
    Kind("GlobalVar", GlobalVar, _nodes("name_hint"), GlobalVar),
    Kind("relay.Id", VarId, _nodes("name_hint"), lambda name_hint: name_hint),
    Kind("relay.Var", Var, _nodes("vid", "type_annotation"), _var, _ANNOTATION),
    Kind("relay.Call", Call, _nodes("op", "args", "attrs", "type_args"), Call, {"type_args": lambda c: c._type_args}),
    Kind("relay.Tuple", Tuple, _nodes("fields"), Tuple),
    Kind(
        "relay.TupleGetItem",
        TupleGetItem,
        _nodes("tuple_value", index=NUMBER),
        lambda tuple_value, index: TupleGetItem(tuple_value, index),
        {"tuple_value": lambda n: n.tuple_value},
    ),
    Kind("relay.Function", Function, _nodes("params", "body", "ret_type", "type_params", "attrs"), Function),
    Kind(
        "relay.Let",
        Let,
        _nodes("var", "value", "body"),
        lambda var, value, body: Let(var, value, body),
        {"var": lambda let: let.variable},
    ),
    Kind("relay.If", If, _nodes("cond", "true_branch", "false_branch"), If),
    Kind("relay.RefCreate", RefCreate, _nodes("value"), RefCreate),
    Kind("relay.RefRead", RefRead, _nodes("ref"), RefRead),
    Kind("relay.RefWrite", RefWrite, _nodes("ref", "value"), RefWrite),
    Kind("relay.Match", Match, _nodes("data", "clauses", complete=FLAG), Match),
    Kind("relay.Clause", Clause, _nodes("lhs", "rhs"), Clause),
    Kind("relay.PatternWildcard", PatternWildcard, {}, PatternWildcard),
    Kind("relay.PatternVar", PatternVar, _nodes("var"), PatternVar),
    Kind("relay.PatternConstructor", PatternConstructor, _nodes("constructor", "patterns"), PatternConstructor),
    Kind("relay.PatternTuple", PatternTuple, _nodes("patterns"), PatternTuple),
    Kind("Span", Span, _nodes("source_name", line=NUMBER, column=NUMBER, end_line=NUMBER, end_column=NUMBER), _span),
    Kind("SequentialSpan", SequentialSpan, _nodes("spans"), SequentialSpan),
)
BY_CLASS = {kind.cls: kind for kind in KINDS}
# TVM moved keys in and out of the name space ``relay`` over its versions
BY_KEY = {kind.key.removeprefix("relay."): kind for kind in KINDS}


def is_expression(kind: Kind) -> bool:
    """True for a kind that has a span and an inferred type too."""
    return issubclass(kind.cls, RelayExpr)
