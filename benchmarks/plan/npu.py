"""A stand-in for an NPU: a backend whose answers are computed by generated C and whose time is that of a cost table.

There is no such chip here. What it takes and refuses, its patterns and the table ``npu.json`` are like those of small
ones: products, what is pointwise beside them, pools and moves of data; no depthwise convolutions, no softmax, no norms.
A region that has run once keeps its results, and from then on gives them after as long as the table says for its
launch, its work and the transfers of its inputs and results. So the time of a model that uses it is simulated where it
is the NPU's and real elsewhere; it holds for the inputs of the first run alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.plan.price import around
from byoc.codegen.kernel.region import generated_dtype, has_expression, known_shape
from byoc.contract import Backend, PatternEntry, callee_name, constraint, get_backend
from byoc.ir.types import tensor_types
from byoc.partition.costs import Table, TableModel, total
from byoc.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from byoc.relay.expr import Call, Function
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.modules.module import Module

NAME = "npu"
TABLE_FILE = Path(__file__).resolve().parent / "npu.json"
OPERATORS = frozenset(
    [
        "nn.conv2d",
        "nn.dense",
        "nn.batch_matmul",
        "nn.bias_add",
        "add",
        "multiply",
        "nn.relu",
        "clip",
        "sigmoid",
        "nn.max_pool2d",
        "nn.avg_pool2d",
        "mean",
        "reshape",
        "transpose",
        "concatenate",
        "npu.conv2d",
        "npu.dense",
    ]
)
Clock = Callable[[], float]


@constraint("operator")
def in_the_array(call: Call) -> str | None:
    """products, sums and products of elements, relu, clip, sigmoid, pools, means and moves of data"""
    return None if callee_name(call) in OPERATORS else callee_name(call)


@constraint("dtype")
def floats(call: Call) -> str | None:
    """float32"""
    found = (t.dtype for ty in (call.checked_type, *(a.checked_type for a in call.args)) for t in tensor_types(ty))
    return next((dtype for dtype in found if dtype != "float32"), None)


@constraint("groups", of="nn.conv2d")
def one_group(call: Call) -> str | None:
    """convolutions of one group"""
    groups = call.attrs.groups  # type: ignore[attr-defined]
    return None if groups == 1 else f"{groups} groups"


class NpuModule(Module):
    """One region: *inner* computes it the first time; later its results are given after *seconds*."""

    type_key = "npu_stand_in"

    def __init__(self, inner: Module, symbol: str, results: int, seconds: float, clock: Clock = time.perf_counter):
        super().__init__()
        self.inner, self.symbols, self.results, self.seconds = inner, (symbol,), results, seconds
        self.constant_arrays: Mapping[str, NDArray] = getattr(inner, "constant_arrays", {})
        self._clock = clock
        self._known: list[np.ndarray] = []

    def constants(self) -> Mapping[str, Sequence[str]]:
        return self.inner.constants()

    def initialize(self, symbol: str, constants: Sequence[NDArray]) -> None:
        self.inner.initialize(symbol, constants)

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., object] | None:
        return self._call if name in self.symbols else None

    def _call(self, *arrays: NDArray) -> None:
        end = self._clock() + self.seconds
        outputs = arrays[len(arrays) - self.results :]
        if not self._known:
            self.inner[self.symbols[0]](*arrays)
            self._known = [a.numpy().copy() for a in outputs]
            return
        for array, known in zip(outputs, self._known, strict=True):
            np.copyto(array.numpy(), known)
        while self._clock() < end:
            pass


class NpuBackend(Backend):
    """The stand-in, with its vendor's cost table."""

    name = NAME
    devices = (NAME,)
    constraints = (in_the_array, floats, one_group, has_expression, generated_dtype, known_shape)

    def __init__(self) -> None:
        self.table = Table.load(TABLE_FILE)

    def patterns(self) -> Sequence[PatternEntry]:
        """A convolution or a dense layer with its bias and, if there is one, its relu."""
        return [
            PatternEntry(f"{NAME}.{name}", pattern)
            for name, op in (("conv2d", "nn.conv2d"), ("dense", "nn.dense"))
            for pattern in (is_op("nn.relu")(_biased(op)), _biased(op))
        ]

    def compile(self, function: Function, options: Mapping[str, object]) -> NpuModule:
        inner = get_backend("c").compile(function, options)
        results = len(tensor_types(function.body.checked_type))
        return NpuModule(inner, str(function.attrs["global_symbol"]), results, self.seconds(function))

    def seconds(self, region: Function) -> float:
        """What a call of *region* takes by the table: the launch, the work, each input up and each result down."""
        model = TableModel(NAME, self.table)
        return total([model.region(region, NAME), *around(region, model)]).seconds


def _biased(op: str) -> DFPattern:
    product, bias = is_op(op)(wildcard(), wildcard()), is_constant()
    return is_op("nn.bias_add")(product, bias) | is_op("add")(product, bias)
