"""How many inputs ONNX's schemas allow, and of which element types, asked once for every operator.

A converter would take more types than its operator has (an average of integers, rounded in some way), and ONNX
Runtime refuses such models when it loads them. Operators without a schema (``com.microsoft``, custom domains) have no
such rule, nor have values that are no tensors. Schemas of ONNX's own operators before opset 7, the oldest that ONNX
Runtime takes, are not held to: some list other types than every model of their time has (Tile-1 has its repeats in
floats).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import onnx.defs

from byoc.ir.types import TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.frontend.onnx.node import OnnxNode

_DTYPES = {
    "float": "float32",
    "double": "float64",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
}
OLDEST = 7
Allowed = tuple[str, frozenset[str]]  # the name of an input, its element types


@lru_cache(maxsize=1024)
def allowed_types(domain: str, op_type: str, opset: int) -> tuple[tuple[Allowed, ...], bool] | None:
    """For each input its name and element types, and whether the last may be repeated; None without a schema."""
    if not domain and opset < OLDEST:
        return None
    try:
        schema = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
    variables = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    inputs = tuple((i.name, _elements(variables.get(i.type_str, [i.type_str]))) for i in schema.inputs)
    return inputs, bool(schema.inputs) and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic


def _elements(types: Sequence[str]) -> frozenset[str]:
    """The element types of the tensors among *types*; none where only other values are allowed."""
    found = (t.removeprefix("tensor(").removesuffix(")") for t in types if t.startswith("tensor("))
    return frozenset(_DTYPES.get(t, t) for t in found)


def check_element_types(node: OnnxNode, domain: str) -> None:
    """Raise ImportModelError for an input of *node* whose element type its operator does not take, and for more inputs
    than it has.
    """
    allowed = allowed_types(domain, node.op_type, node.opset)
    if allowed is None:
        return
    inputs, repeats = allowed
    if len(node.inputs) > len(inputs) and not repeats:
        raise node.error(
            f"it has {len(node.inputs)} inputs, and {node.op_type} of opset {node.opset} takes at most {len(inputs)}: "
            "take the others away"
        )
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        name, types = inputs[min(index, len(inputs) - 1)]
        ty = infer_expr(value)
        if types and isinstance(ty, TensorType) and ty.dtype not in types:
            listed = ", ".join(sorted(types))
            raise node.error(
                f"input {index} ({name}) is {ty.dtype}, and {node.op_type} of opset {node.opset} takes {listed}: "
                "cast it before, or export the model for an opset that takes it"
            )
