"""Labels for labels, numbers and strings alike. Source: LabelEncoder-1/2/4, CategoryMapper-1 and ZipMap-1 of
ai.onnx.ml."""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MACHINE_LEARNING, converter
from byoc.relay.op import strings
from byoc.runtime.core.container import object_vector

UNUSED = "_Unused"  # the string of what has no value, unless a model says another


@converter("LabelEncoder", domain=MACHINE_LEARNING)
def _label_encoder_of_classes(node: OnnxNode) -> RelayExpr:
    """Strings by their places among the classes, or places by strings."""
    classes = object_vector(node.attrs.strings("classes_strings"))
    return _between(node, classes, np.arange(len(classes)))


@converter("CategoryMapper", domain=MACHINE_LEARNING)
def _category_mapper(node: OnnxNode) -> RelayExpr:
    """Strings by integers, or integers by strings."""
    return _between(node, object_vector(node.attrs.strings("cats_strings")), np.array(node.attrs.ints("cats_int64s")))


@converter("ZipMap", domain=MACHINE_LEARNING)
def _zip_map(node: OnnxNode) -> RelayExpr:
    """The scores themselves, ``f32[N, classes]``, a column for each of the classes in their order.

    ONNX makes a dictionary of each row; a tensor says the same, and accelerators and C know no dictionaries.
    """
    classes = node.attrs.strings("classlabels_strings", []) or node.attrs.ints("classlabels_int64s", [])
    columns = node.shape(node[0])[-1] if node.rank(node[0]) else 1
    if not classes or (isinstance(columns, int) and columns != len(classes)):
        raise node.error(f"has {len(classes)} classes for {node.type_of(node[0])}; the model is damaged")
    return node[0]


def _between(node: OnnxNode, texts: np.ndarray, numbers: np.ndarray) -> RelayExpr:
    """*texts* by *numbers* where the data are strings, else *numbers* by *texts*."""
    if node.dtype(node[0]) == "string":
        return _mapped(node, texts, numbers.astype("int64"), node.attrs.int("default_int64", -1))
    return _mapped(node, numbers.astype("int64"), texts, node.attrs.string("default_string", UNUSED))


@converter("LabelEncoder", since=2, domain=MACHINE_LEARNING)
def _label_encoder(node: OnnxNode) -> RelayExpr:
    """Each element by the value of its key, of equal keys the first, else by a default; NaN may be a key."""
    values = _table(node, "values")
    return _mapped(node, _table(node, "keys"), values, _default(node, values))


def _mapped(node: OnnxNode, keys: np.ndarray, values: np.ndarray, default: object) -> RelayExpr:
    """The value of each element's key, *default* where no key is equal."""
    data, of_texts = node[0], keys.dtype == object
    if len(keys) != len(values) or not len(keys):
        raise node.error(f"there are {len(keys)} keys and {len(values)} values; the model is damaged")
    if (keys.dtype.name if not of_texts else "string") != node.dtype(data):
        raise node.error(f"the keys are {keys.dtype.name}, the data is {node.dtype(data)}; the model is damaged")
    if not of_texts and values.dtype != object:
        return _numbers_for_numbers(data, keys, values, default)
    place = strings.index_of(data, constant(keys)) if of_texts else _place(data, keys)
    table = object_vector([*values.tolist(), default]).astype(values.dtype)
    return relay.take(constant(table), place, axis=0)


def _place(data: RelayExpr, keys: np.ndarray) -> RelayExpr:
    """``T[...] -> int64[...]``: the place of the first of *keys* that equals each number, their count without one."""
    return _numbers_for_numbers(data, keys, np.arange(len(keys)), len(keys))


def _numbers_for_numbers(data: RelayExpr, keys: np.ndarray, values: np.ndarray, default: object) -> RelayExpr:
    known, first = np.unique(keys, return_index=True)
    numbers = known[known == known]  # NaN equals nothing
    result = relay.full_like(relay.cast(data, values.dtype.name), constant(default, values.dtype.name))
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
        return object_vector(node.attrs.strings(f"{what}_strings"))
    if f"{what}_tensor" in node.attrs:
        table = np.asarray(node.services.tensor(node.attrs.tensor(f"{what}_tensor"))).reshape(-1)
        if table.dtype.kind not in "ifO":
            raise node.error(f"{what} that are {table.dtype} are not supported; encode them as integers")
        return table
    if f"{what}_floats" in node.attrs:
        return np.array(node.attrs.floats(f"{what}_floats"), "float32")
    return np.array(node.attrs.ints(f"{what}_int64s", []), "int64")


def _default(node: OnnxNode, values: np.ndarray) -> object:
    if "default_tensor" in node.attrs:
        return np.asarray(node.services.tensor(node.attrs.tensor("default_tensor"))).reshape(-1)[0]
    if values.dtype == object:
        return node.attrs.string("default_string", UNUSED)
    if values.dtype == np.float32:
        return node.attrs.float("default_float", -0.0)
    return node.attrs.int("default_int64", -1)
