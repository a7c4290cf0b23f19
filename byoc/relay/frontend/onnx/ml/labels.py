"""Numbers for numbers. Source: LabelEncoder-2/4 of ai.onnx.ml; those between strings are not imported."""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MACHINE_LEARNING, converter


@converter("LabelEncoder", since=2, domain=MACHINE_LEARNING)
def _label_encoder(node: OnnxNode) -> RelayExpr:
    """Each element by the value of its key, of equal keys the first, else by a default; NaN may be a key."""
    keys, values = _table(node, "keys"), _table(node, "values")
    if len(keys) != len(values) or not len(keys):
        raise node.error(f"there are {len(keys)} keys and {len(values)} values; the model is damaged")
    default, data = _default(node, values), node[0]
    if keys.dtype.name != node.dtype(data):
        raise node.error(f"the keys are {keys.dtype.name}, the data is {node.dtype(data)}; the model is damaged")
    known, first = np.unique(keys, return_index=True)
    numbers = known[known == known]  # NaN equals nothing
    result = relay.full_like(relay.cast(data, values.dtype.name), default)
    if len(numbers):
        place = relay.clip(relay.searchsorted(constant(numbers), data, dtype="int64"), 0, len(numbers) - 1)
        found = relay.equal(relay.take(constant(numbers), place, axis=0), data)
        named = relay.take(constant(values[first[: len(numbers)]]), place, axis=0)
        result = relay.where(found, named, result)
    if len(numbers) < len(known):
        result = relay.where(relay.isnan(data), constant(values[first[-1]]), result)
    return result


def _table(node: OnnxNode, what: str) -> np.ndarray:
    if f"{what}_strings" in node.attrs:
        raise node.error(f"{what} that are strings are not supported; encode them as integers")
    if f"{what}_tensor" in node.attrs:
        table = np.asarray(node.services.tensor(node.attrs.tensor(f"{what}_tensor"))).reshape(-1)
        if table.dtype.kind not in "if":
            raise node.error(f"{what} that are {table.dtype} are not supported; encode them as integers")
        return table
    if f"{what}_floats" in node.attrs:
        return np.array(node.attrs.floats(f"{what}_floats"), "float32")
    return np.array(node.attrs.ints(f"{what}_int64s", []), "int64")


def _default(node: OnnxNode, values: np.ndarray) -> RelayExpr:
    if "default_tensor" in node.attrs:
        given = np.asarray(node.services.tensor(node.attrs.tensor("default_tensor")))
        return constant(given.reshape(()).astype(values.dtype))
    if values.dtype == np.float32:
        return constant(node.attrs.float("default_float", -0.0), "float32")
    return constant(node.attrs.int("default_int64", -1), values.dtype.name)
