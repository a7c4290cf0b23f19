"""The graph language, under the names that Relay's users know. Source: ``tvm.relay``.

Expressions, types, text, functors and all operators (``relay.add``, ``relay.nn.conv2d``) are here at once, so that
every operator can be named after ``import byoc.relay``; passes, patterns and frontends are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from byoc.ir.adt import Constructor, TypeData
from byoc.ir.attrs import Attrs, DictAttrs
from byoc.ir.expr import GlobalVar
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import SequentialSpan, SourceName, Span
from byoc.ir.types import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    RelayRefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeKind,
    TypeRelation,
    TypeVar,
)
from byoc.relay import op, qnn
from byoc.relay import std as _standard_modules
from byoc.relay.adt import Clause, Match, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from byoc.relay.bind import bind
from byoc.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    const,
    var,
)
from byoc.relay.functor import ExprFunctor, ExprMutator, ExprVisitor
from byoc.relay.op import std
from byoc.relay.scope_builder import ScopeBuilder
from byoc.relay.structural import assert_structural_equal, structural_equal, structural_hash
from byoc.relay.text import astext, fromtext, parse, parse_expr
from byoc.relay.tuple_wrapper import TupleWrapper
from byoc.relay.type_functor import TypeFunctor, TypeMutator, TypeVisitor

if TYPE_CHECKING:  # what __getattr__ finds
    from byoc.relay import analysis as analysis
    from byoc.relay import collage as collage
    from byoc.relay import data_dep_optimization as data_dep_optimization
    from byoc.relay import dataflow_pattern as dataflow_pattern
    from byoc.relay import frontend as frontend
    from byoc.relay import interpreter as interpreter
    from byoc.relay import loops as loops
    from byoc.relay import prelude as prelude
    from byoc.relay import testing as testing
    from byoc.relay import transform as transform
    from byoc.relay.op import *  # noqa: F403
    from byoc.relay.op import annotation as annotation
    from byoc.relay.op import image as image
    from byoc.relay.op import nn as nn

# name -> the module, loaded on first use
_SUBMODULES = {
    **{
        name: f"byoc.relay.{name}"
        for name in (
            "analysis",
            "collage",
            "data_dep_optimization",
            "dataflow_pattern",
            "frontend",
            "interpreter",
            "loops",
            "prelude",
            "testing",
            "transform",
        )
    },
    **{name: f"byoc.relay.op.{name}" for name in ("annotation", "image", "nn")},
}

# modules of relay.op: TVM has another module of this name, or none
_OF_OP_ALONE = ("memory", "vm")

__all__ = [
    "Any",
    "Attrs",
    "Call",
    "Clause",
    "Constant",
    "Constructor",
    "DictAttrs",
    "Expr",
    "ExprFunctor",
    "ExprMutator",
    "ExprVisitor",
    "FuncType",
    "Function",
    "GlobalTypeVar",
    "GlobalVar",
    "IRModule",
    "If",
    "IncompleteType",
    "Let",
    "Match",
    "Op",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "RefCreate",
    "RefRead",
    "RefType",
    "RefWrite",
    "RelayRefType",
    "ScopeBuilder",
    "SequentialSpan",
    "SourceName",
    "Span",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "TupleWrapper",
    "Type",
    "TypeCall",
    "TypeConstraint",
    "TypeData",
    "TypeFunctor",
    "TypeKind",
    "TypeMutator",
    "TypeRelation",
    "TypeVar",
    "TypeVisitor",
    "Var",
    "assert_structural_equal",
    "astext",
    "bind",
    "const",
    "fromtext",
    "op",
    "parse",
    "parse_expr",
    "qnn",
    "scalar_type",
    "std",
    "structural_equal",
    "structural_hash",
    "var",
]


def scalar_type(dtype: str) -> TensorType:
    """The type of a scalar: a tensor of shape (). Source: ``relay.scalar_type``."""
    return TensorType((), dtype)


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return importlib.import_module(_SUBMODULES[name])
    if not name.startswith("__") and name not in _OF_OP_ALONE and hasattr(op, name):
        globals()[name] = found = getattr(op, name)  # the next time it is there
        return found
    raise AttributeError(f"byoc.relay has no name {name!r}: neither a class, a sub-module nor an operator")


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES, *getattr(op, "__all__", ())})
