"""Annotations that mark where the share of a compiler begins and ends. Source: ``relay.annotation``.

They stand on edges: ``compiler_end`` on the value that leaves a region, ``compiler_begin`` on one that enters. They
compute nothing; ``PartitionGraph`` makes functions of what they enclose.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op, Sample, register_op
from byoc.ir.traits import SAME
from byoc.ir.types import Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.device_placement import function_on_device, on_device

if TYPE_CHECKING:
    from byoc.relay.tuple_wrapper import TupleWrapper


@dataclass(frozen=True)
class CompilerAttrs(Attrs):
    """Whose share it is: the name of a target."""

    compiler: str


def _same_type(types: Sequence[Type], attrs: Attrs | None) -> Type:
    return types[0]


_MARKS: set[Op] = set()
_SAMPLES = (Sample([(2, 3)], {"compiler": "acme"}),)


def _register(name: str, doc: str) -> Op:
    op = register_op(
        name, inputs=("data",), rel=_same_type, traits=SAME, doc=doc, attrs=CompilerAttrs, samples=_SAMPLES
    )
    _MARKS.add(op)
    return op


BEGIN = _register("annotation.compiler_begin", "A value that enters the share of a compiler.")
END = _register("annotation.compiler_end", "A value that leaves the share of a compiler.")


def compiler_begin(data: RelayExpr, compiler: str) -> Call:
    """*data* as it enters a region of *compiler*."""
    return _annotation(BEGIN, data, compiler)


def compiler_end(data: RelayExpr, compiler: str) -> Call:
    """*data* as it leaves a region of *compiler*."""
    return _annotation(END, data, compiler)


def _annotation(op: Op, data: RelayExpr, compiler: str) -> Call:
    call = Call(op, (data,), _attrs_of(compiler), span=data.span)
    call._checked_type = data._checked_type
    return call


@functools.cache
def _attrs_of(compiler: str) -> CompilerAttrs:
    return CompilerAttrs(compiler)


def _register_marker(name: str, doc: str) -> None:
    op = register_op(name, inputs=("data",), rel=_same_type, traits=SAME, doc=doc, samples=(Sample([(2, 3)]),))
    _MARKS.add(op)


_register_marker("annotation.stop_fusion", "The value unchanged, which is not fused with what comes after.")
_register_marker("annotation.checkpoint", "The value (or tuple) unchanged; a gradient computes it again.")


def stop_fusion(data: RelayExpr) -> Call:
    """*data*, which is not fused with what comes after it. Source: ``relay.annotation.stop_fusion``."""
    return make_call("annotation.stop_fusion", [data])


def checkpoint(data: RelayExpr | TupleWrapper) -> Call:
    """*data*, which a gradient computes again instead of keeping it. Source: ``relay.annotation.checkpoint``."""
    from byoc.relay.tuple_wrapper import TupleWrapper

    return make_call("annotation.checkpoint", [data.astuple() if isinstance(data, TupleWrapper) else data])


def is_mark(op: object) -> bool:
    """True for an operator of this file, which says something to the compiler and computes nothing."""
    return op in _MARKS


def is_begin(expr: RelayExpr) -> TypeGuard[Call]:
    """True for a compiler_begin."""
    return type(expr) is Call and expr.op is BEGIN


def is_end(expr: RelayExpr) -> TypeGuard[Call]:
    """True for a compiler_end."""
    return type(expr) is Call and expr.op is END


def compiler_of(annotation: Call) -> str:
    """The target of a compiler_begin or compiler_end."""
    result: str = annotation.attrs.compiler
    return result


def strip_annotations(expr: RelayExpr) -> RelayExpr:
    """The first expression below *expr* that is no annotation."""
    while type(expr) is Call and (expr.op is BEGIN or expr.op is END):
        expr = expr.args[0]
    return expr


__all__ = [
    "BEGIN",
    "END",
    "CompilerAttrs",
    "checkpoint",
    "compiler_begin",
    "compiler_end",
    "compiler_of",
    "function_on_device",
    "is_begin",
    "is_end",
    "on_device",
    "stop_fusion",
    "strip_annotations",
]
