"""Calls of fused functions in the memory dialect: of the function itself, and of what says how large its outputs are.

They stand in what ``VMCompiler.optimize`` shows; no kernel and no samples belong to them. Source: ``relay.op.vm``,
``src/relay/op/vm/vm.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import register_op
from byoc.ir.types import FuncType, TupleType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import make_call


@dataclass(frozen=True)
class ShapeFuncAttrs(Attrs):
    """Of each input, whether the shape function reads the input itself and not only its shape."""

    is_input: tuple[int, ...] = ()


def _rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    if not isinstance(types[0], FuncType) or not all(isinstance(ty, TupleType) for ty in types[1:]):
        raise TypeInferenceError(f"takes a function, a tuple of inputs and one of outputs, got {types}")
    return TupleType(())


for _name, _attrs, _doc in (
    ("vm.shape_func", ShapeFuncAttrs, "Write the shapes of a function's outputs, from the shapes of its inputs."),
    ("vm.invoke_tvm_op", None, "Call a function on inputs; it writes its outputs."),
):
    _op = register_op(_name, inputs=("func", "inputs", "outputs"), rel=_rel, attrs=_attrs, doc=_doc)
    _op.set_attr("TOpIsStateful", True)
    _op.set_attr("TNonComputational", True)


def shape_func(func: RelayExpr, inputs: RelayExpr, outputs: RelayExpr, is_inputs: Sequence[bool]) -> Call:
    """Write the shapes of what *func* gives for *inputs* to *outputs*. Source: ``relay.op.vm.shape_func``."""
    return make_call("vm.shape_func", [func, inputs, outputs], ShapeFuncAttrs(tuple(int(i) for i in is_inputs)))


def invoke_tvm_op(func: RelayExpr, inputs: RelayExpr, outputs: RelayExpr) -> Call:
    """Call *func* on *inputs*, which writes *outputs*. Source: ``relay.op.vm.invoke_tvm_op``."""
    return make_call("vm.invoke_tvm_op", [func, inputs, outputs])
