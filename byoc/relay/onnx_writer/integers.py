"""Products of integers, as whole models have them.

Relay computes them on int32, from which the zero points are taken before. Where both sides are of 8 bits, they are
written as ONNX's own operators of 8 bits with zero points, as they came in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Constant
from byoc.relay.onnx_writer import neural
from byoc.relay.onnx_writer.graph import GraphWriter, element_type
from byoc.relay.onnx_writer.rules import Rule, Written, needs
from byoc.runtime.core.ndarray import numpy_dtype

_BYTES = ("uint8", "int8")
_SUMS = "int32"
_WHOLE = ("int32", "int64", "uint32", "uint64")  # of which ONNX Runtime multiplies matrices


@dataclass(frozen=True)
class Bytes:
    """A tensor of 8 bits by its *name* and *dtype*, with the name of its zero point, which is "" for 0."""

    name: str
    dtype: str
    zero: str = ""


def _bytes_of(value: RelayExpr, name: str, graph: GraphWriter) -> Bytes | None:
    """What *value*, of int32 and called *name*, is as 8 bits less a zero point; None where it is not."""
    if isinstance(value, Constant):
        return _constant_bytes(value.data.numpy(), graph)
    call, names = graph.made.get(name, (None, ()))
    if call is None:
        return None
    if calls(call, "transpose"):
        found = _bytes_of(call.args[0], names[0], graph)
        axes = [int(a) for a in call.attrs.axes] if call.attrs.axes else None
        return found and replace(found, name=graph.value("Transpose", found.name, perm=axes))
    if calls(call, "cast"):
        ty = call.args[0].checked_type
        return Bytes(names[0], ty.dtype) if isinstance(ty, TensorType) and ty.dtype in _BYTES else None
    if calls(call, "subtract"):
        found = _bytes_of(call.args[0], names[0], graph)
        if found is None or found.zero or isinstance(call.args[0], Constant):
            return None
        zero = _zero_point(call.args[1], names[1], found.dtype, graph)
        return None if zero is None else replace(found, zero=zero)
    return None


def _constant_bytes(array: np.ndarray, graph: GraphWriter) -> Bytes | None:
    """Constants that 256 numbers in a row hold."""
    if array.dtype != np.int32 or not array.size:
        return None
    low, high = int(array.min()), int(array.max())
    if low >= -128 and high <= 127:
        return Bytes(graph.constant(array.astype(np.int8)), "int8")
    if high - min(low, 0) > 255:
        return None
    zero = -min(low, 0)
    return Bytes(graph.constant((array + zero).astype(np.uint8)), "uint8", graph.scalar(zero, "uint8"))


def _zero_point(value: RelayExpr, name: str, dtype: str, graph: GraphWriter) -> str | None:
    """The name of the scalar *value*, of int32, as *dtype*; None where it may be none."""
    ty = value.checked_type
    if not isinstance(ty, TensorType) or ty.shape:
        return None
    if isinstance(value, Constant):
        number, limits = int(value.data.numpy()), np.iinfo(numpy_dtype(dtype))
        fits = limits.min <= number <= limits.max
        return graph.scalar(number, dtype) if fits else None
    call, names = graph.made.get(name, (None, ()))
    if call is None or not calls(call, "cast"):
        return None
    source = call.args[0].checked_type
    return names[0] if isinstance(source, TensorType) and source.dtype == dtype else None


def _operands(at: Written) -> tuple[Bytes, Bytes] | None:
    """Both sides of a product with sums in int32 as 8 bits."""
    if {at.type(0).dtype, at.type(1).dtype, at.result.dtype} != {_SUMS}:
        return None
    first, second = (_bytes_of(at.call.args[k], at.names[k], at.graph) for k in (0, 1))
    return None if first is None or second is None else (first, second)


def _written(at: Written, operator: str, first: Bytes, second: Bytes, **attributes: object) -> str:
    inputs = [first.name, second.name, first.zero, second.zero]
    if second.zero and not first.zero:
        inputs[2] = at.graph.scalar(0, first.dtype)
    while not inputs[-1]:
        inputs.pop()
    return at.value(operator, *inputs, **attributes)


def product(of_floats: Callable[[Written], str], turned: Callable[[Written], tuple[bool, bool]]) -> Rule:
    """The rule of a product of matrices, whose sides lie with their last two axes in turn where *turned* says so."""

    def rule(at: Written) -> str:
        if at.result.dtype.startswith("float"):
            return of_floats(at)
        turns = turned(at)
        found = _operands(at)
        if found is not None:
            first, second = (
                replace(side, name=_turned(at, k, side.name)) if turn else side
                for k, (side, turn) in enumerate(zip(found, turns, strict=True))
            )
            return _written(at, "MatMulInteger", first, second)
        needs(at.result.dtype in _WHOLE, f"a product of {at.result.dtype}")
        names = [name if at.type(k).dtype == at.result.dtype else _cast(at, name) for k, name in enumerate(at.names)]
        return at.value("MatMul", *(_turned(at, k, n) if turns[k] else n for k, n in enumerate(names)))

    return rule


def _cast(at: Written, name: str) -> str:
    return at.value("Cast", name, to=element_type(at.result.dtype))


def _turned(at: Written, number: int, name: str) -> str:
    rank = len(at.type(number).shape)
    needs(rank >= 2, "a product with a vector")
    return at.value("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])


def conv(at: Written) -> str:
    """Channels first; of integers where both sides are of 8 bits, what lies outside being the zero point."""
    if at.result.dtype.startswith("float"):
        return neural.conv(at)
    found = _operands(at)
    needs(found is not None, f"a convolution of {at.type(0).dtype} and {at.type(1).dtype} that are not of 8 bits")
    assert found is not None
    first, second = found
    needs(first.dtype == "uint8", "a convolution of int8, which ONNX Runtime has of uint8 alone")
    return _written(at, "ConvInteger", first, second, **neural.windows(at))


def _of_dense(at: Written) -> tuple[bool, bool]:
    return False, True


def _of_matmul(at: Written) -> tuple[bool, bool]:
    return bool(at.attrs.transpose_a), bool(at.attrs.transpose_b)


RULES: Mapping[str, Rule] = {
    "nn.dense": product(neural.dense, _of_dense),
    "nn.matmul": product(neural.matmul, _of_matmul),
    "nn.batch_matmul": product(neural.matmul, _of_matmul),
    "nn.conv1d": conv,
    "nn.conv2d": conv,
    "nn.conv3d": conv,
}
