"""Constants and tensors made from a few numbers.

Source: ONNX Constant-1 to 24, ConstantOfShape-9, Range-11, RandomNormal-1/22 and its relatives, Bernoulli-15/22.

Random numbers come of a counter and a key (``relay.random``): every run of a model has the same ones. The key is the
node's seed or, where it has none, made of its name.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence

import numpy as np

from byoc import relay
from byoc.ir.dims import are_numbers
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import TupleGetItem, constant
from byoc.relay.frontend.onnx.dims import matched
from byoc.relay.frontend.onnx.dtypes import dtype_of
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.run_time.list_lengths import declared_rank, with_length

_FORMS: dict[str, Callable[[OnnxNode], np.ndarray]] = {
    "value": lambda node: node.services.tensor(node.attrs.tensor("value")),
    "value_int": lambda node: np.array(node.attrs.int("value_int"), "int64"),
    "value_ints": lambda node: np.array(node.attrs.ints("value_ints"), "int64"),
    "value_float": lambda node: np.array(node.attrs.float("value_float"), "float32"),
    "value_floats": lambda node: np.array(node.attrs.floats("value_floats"), "float32"),
    "value_string": lambda node: np.array(node.attrs.string("value_string"), object),
    "value_strings": lambda node: np.array(node.attrs.strings("value_strings"), object),
}


@converter("Constant")
def _constant(node: OnnxNode) -> RelayExpr:
    forms = [name for name in node.attrs.names() if name in _FORMS]
    if len(forms) != 1:
        raise node.error(
            f"needs exactly one of the attributes {', '.join(_FORMS)}, got {', '.join(node.attrs.names()) or 'none'}"
        )
    return constant(_FORMS[forms[0]](node))


@converter("ConstantOfShape")
def _constant_of_shape(node: OnnxNode) -> RelayExpr:
    fill = node.services.tensor(node.attrs.tensor("value")) if "value" in node.attrs else np.zeros(1, "float32")
    if fill.size != 1:
        raise node.error(f"the value must have one element, got {fill.size}")
    value = constant(fill.reshape(()))
    shape = node.value(0)
    if shape is None:
        node = with_length(node, 0, declared_rank(node), least=1)
        filled, dims = relay.full(value, node[0], node.dtype(value)), node.services.dims(node[0])
        return filled if dims is None else matched(node, filled, dims)
    sizes = [int(v) for v in shape.reshape(-1)]
    if min(sizes, default=0) < 0:
        raise node.error(f"a shape has no negative dimension, got {sizes}")
    return relay.full(value, sizes, node.dtype(value))


MAX_ELEMENTS = 1 << 24  # of a tensor that is made when importing; a longer one is a damaged model


@converter("Range")
def _range(node: OnnxNode) -> RelayExpr:
    start, limit, delta = (_number(node, i) for i in range(3))
    if start is not None and limit is not None and delta is not None:
        count = (limit - start) / delta
        if count > MAX_ELEMENTS:
            raise node.error(f"{count:.0f} elements are more than the {MAX_ELEMENTS} that can be made when importing")
    first, last, step = (node.fold(relay.reshape(node[i], [])) if node.rank(node[i]) else node[i] for i in range(3))
    numbers, dims = relay.arange(first, last, step, node.dtype(node[0])), node.services.dims(node[1])
    counted = start == 0 and delta == 1
    return matched(node, numbers, dims) if counted and dims is not None else numbers


def _number(node: OnnxNode, index: int) -> float | None:
    """Input *index* where it is known; functions of ONNX's own (AffineGrid) have a list of one instead of a scalar."""
    value = node.value(index)
    return None if value is None else float(value.reshape(()))


@converter("EyeLike")
def _eye_like(node: OnnxNode) -> RelayExpr:
    sizes = node.shape(node[0])
    if len(sizes) != 2:
        raise node.error(f"takes a matrix, got {node.type_of(node[0])}")
    if not are_numbers(sizes):
        return _eye_of_run(node)
    rows, columns = sizes
    if rows * columns > MAX_ELEMENTS:
        raise node.error(f"{rows} x {columns} elements are more than can be made when importing")
    return constant(np.eye(rows, columns, node.attrs.int("k", 0)).astype(_eye_dtype(node)))


def _eye_dtype(node: OnnxNode) -> str:
    if "dtype" not in node.attrs:
        return node.dtype(node[0])
    return dtype_of(node.attrs.int("dtype"), f"the attribute dtype of node {node.name}")


def _eye_of_run(node: OnnxNode) -> RelayExpr:
    """Of a free size: where the row and the column, each counted by the run, are the same."""
    sizes = relay.shape_of(node[0], "int64")
    rows, columns = (
        relay.arange(
            constant(0, "int64"), relay.take(sizes, constant(k, "int64"), axis=0), constant(1, "int64"), dtype="int64"
        )
        for k in (0, 1)
    )
    first = relay.add(rows, constant(node.attrs.int("k", 0), "int64"))
    return relay.cast(relay.equal(relay.expand_dims(first, 1), relay.expand_dims(columns, 0)), _eye_dtype(node))


def _key(node: OnnxNode) -> RelayExpr:
    """The key of a node: the bits of its seed, which is a float, else those of its name."""
    if "seed" in node.attrs and node.op_type != "Dropout":
        return relay.random.threefry_key(int(np.array(node.attrs.float("seed"), "float32").view("uint32")))
    return relay.random.threefry_key(zlib.crc32(node.name.encode()) + (1 << 32))  # beyond all seeds


def _random_dtype(node: OnnxNode, default: str) -> str:
    if "dtype" not in node.attrs:
        return default
    return dtype_of(node.attrs.int("dtype"), f"the attribute dtype of node {node.name}")


def _sized(node: OnnxNode, sizes: Sequence[int]) -> Sequence[int]:
    """*sizes*. Raises ImportModelError where one is negative, or where they are too many numbers."""
    if min(sizes, default=0) < 0 or math.prod(sizes) > MAX_ELEMENTS:
        raise node.error(f"a random tensor has at most {MAX_ELEMENTS} elements and no negative size, got {list(sizes)}")
    return sizes


def _drawn_like(node: OnnxNode, key: RelayExpr, like: RelayExpr, dtype: str) -> RelayExpr:
    """Uniform numbers in [0, 1), as many as *like* has, whose sizes may be free."""
    if node.type_of(like).is_static:
        return TupleGetItem(relay.random.uniform(key, _sized(node, node.static_dims(like, node.op_type)), dtype), 1)
    return TupleGetItem(relay.random.uniform_like(key, like, dtype), 1)


def _numbers(node: OnnxNode, shape: Sequence[int] | RelayExpr, dtype: str) -> RelayExpr:
    """Numbers of a uniform or a normal distribution, made in float32, or in float64 where that is asked for.

    They have the sizes *shape*, or those of a tensor, which may be free.
    """
    made = dtype if dtype == "float64" else "float32"
    is_uniform = node.op_type.startswith("RandomUniform")
    names = (("low", 0.0), ("high", 1.0)) if is_uniform else (("mean", 0.0), ("scale", 1.0))
    first, second = (node.attrs.float(name, otherwise) for name, otherwise in names)
    if isinstance(shape, RelayExpr):
        like = relay.random.uniform_like if is_uniform else relay.random.normal_like
        found = like(_key(node), shape, made, first, second)
    else:
        draw = relay.random.uniform if is_uniform else relay.random.normal
        found = draw(_key(node), _sized(node, shape), made, first, second)
    numbers = TupleGetItem(found, 1)
    return numbers if dtype == made else relay.cast(numbers, dtype)


@converter("RandomUniform", "RandomNormal")
def _random(node: OnnxNode) -> RelayExpr:
    return _numbers(node, node.attrs.ints("shape"), _random_dtype(node, "float32"))


@converter("RandomUniformLike", "RandomNormalLike")
def _random_like(node: OnnxNode) -> RelayExpr:
    sizes = node.static_dims(node[0], node.op_type) if node.type_of(node[0]).is_static else node[0]
    return _numbers(node, sizes, _random_dtype(node, node.dtype(node[0])))


@converter("Bernoulli")
def _bernoulli(node: OnnxNode) -> RelayExpr:
    """1 with the chance that the data gives, else 0. The operators by which ONNX defines it give 0 with that chance."""
    made = "float64" if node.dtype(node[0]) == "float64" else "float32"
    heads = relay.less(_drawn_like(node, _key(node), node[0], made), relay.cast(node[0], made))
    return relay.cast(heads, _random_dtype(node, node.dtype(node[0])))


@converter("Multinomial")
def _multinomial(node: OnnxNode) -> RelayExpr:
    """``T[N, classes] -> int[N, sample_size]``: classes by the logarithms of their chances."""
    count, rows = node.attrs.int("sample_size", 1), node.shape(node[0])[0]
    if count < 1 or (rows if isinstance(rows, int) else 1) * count > MAX_ELEMENTS:
        raise node.error(f"sample_size is at least 1, of {MAX_ELEMENTS} elements in all, got {count} of {rows} rows")
    chances = relay.nn.softmax(relay.cast(node[0], "float32"), axis=1)
    found = TupleGetItem(relay.random.multinomial(_key(node), chances, count), 1)
    return relay.cast(found, _random_dtype(node, "int32"))


@converter("Dropout", since=7)
def _dropout(node: OnnxNode) -> list[RelayExpr]:
    """For inference the data as they are, and a mask that keeps everything; in training a random mask (Dropout-12).

    A ratio, or whether it is training, that only the run knows chooses between both by numbers.
    """
    training = node.value(2) if node.optional(2) is not None else np.zeros((), bool)
    ratio = node.value(1) if node.optional(1) is not None else np.array(0.5, "float32")
    if (training is not None and not training.any()) or (ratio is not None and not ratio.any()):
        kept = relay.ones_like(relay.cast(node[0], "bool"))
        mask = kept if node.opset >= 10 or not node.has_output(1) else relay.cast(kept, node.dtype(node[0]))
        return [node[0], mask] if node.has_output(1) else [node[0]]
    if ratio is not None and not 0 <= float(ratio.reshape(())) < 1:
        raise node.error(f"a ratio is in [0, 1), got {ratio}")
    dtype = node.dtype(node[0])
    made = "float64" if dtype == "float64" else "float32"
    share = constant(ratio.reshape(()), made) if ratio is not None else relay.cast(relay.reshape(node[1], []), made)
    if training is None:
        share = relay.where(relay.reshape(node[2], []), share, constant(0.0, made))
    seed = node.attrs.int("seed", -1)
    key = relay.random.threefry_key(seed) if seed >= 0 else _key(node)
    mask = relay.greater_equal(_drawn_like(node, key, node[0], made), share)
    scaled = relay.divide(relay.cast(node[0], made), relay.subtract(constant(1.0, made), share))
    result = relay.cast(relay.where(mask, scaled, relay.zeros_like(scaled)), dtype)
    return [result, mask] if node.has_output(1) else [result]
