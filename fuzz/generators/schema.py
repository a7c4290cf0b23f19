"""What ONNX's own schemas say of an operator: the element types that each input takes, and its attributes."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import onnx
import onnx.defs
from onnx import NodeProto

ONNX_NAMES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bfloat16)": "bfloat16",
    "tensor(bool)": "bool",
    **{f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


@functools.cache
def schema_of(operator: str, opset: int, domain: str = "") -> onnx.defs.OpSchema | None:
    """The schema that holds at *opset*, or None where there is none."""
    try:
        return onnx.defs.get_schema(operator, opset, domain)
    except onnx.defs.SchemaError:
        return None


@functools.cache
def taken_types(operator: str, opset: int, index: int) -> frozenset[str]:
    """The names of the element types that input *index* takes; empty where the operator has no such input."""
    schema = schema_of(operator, opset)
    if schema is None or not schema.inputs:
        return frozenset()
    last = schema.inputs[-1]
    variadic = last.option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    if index >= len(schema.inputs) and not variadic:
        return frozenset()
    parameter = schema.inputs[min(index, len(schema.inputs) - 1)]
    return frozenset(ONNX_NAMES[t] for t in parameter.types if t in ONNX_NAMES)


def type_problem(node: NodeProto, opset: int, dtypes: Mapping[str, str]) -> str | None:
    """Why ONNX does not allow *node* inputs of *dtypes*, or None; inputs that share a type variable must agree."""
    if node.domain:
        return None
    schema = schema_of(node.op_type, opset)
    if schema is None or schema.deprecated:
        return f"{node.op_type} is not in opset {opset}"
    bound: dict[str, str] = {}
    for index, name in enumerate(node.input):
        if not name:
            continue
        if dtypes[name] not in taken_types(node.op_type, opset, index):
            return f"{node.op_type} takes no {dtypes[name]}"
        parameter = schema.inputs[min(index, len(schema.inputs) - 1)]
        if not parameter.is_homogeneous:
            continue
        if bound.setdefault(parameter.type_str, dtypes[name]) != dtypes[name]:
            return f"{node.op_type} takes one type for {parameter.type_str}"
    return None
