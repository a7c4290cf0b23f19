"""The ``torch`` backend: regions through PyTorch's libraries, on a CUDA device cuBLAS and cuDNN.

An integration of a library of kernels without a graph format: a region becomes a program of calls, whose values stay on
the device. Float32 is computed as float32; option ``precision="tf32"`` lets products round their operands to TF32.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from byoc.contract import (
    NAN_SPREAD,
    Backend,
    PatternEntry,
    RegionNode,
    callee_name,
    makes,
    register_backend,
)
from byoc.contract.verdict import calls_in
from byoc.contrib.program_generator import ProgramGenerator
from byoc.contrib.torch.constraints import CONVOLUTIONS, TAKEN, one_for_each_channel
from byoc.contrib.torch.device import PRECISIONS, misnamed, torch_missing
from byoc.contrib.torch.module import TorchModule
from byoc.contrib.torch.table import KERNELS
from byoc.contrib.torch.windows import CONV_BIAS, DENSE_BIAS
from byoc.errors import UserError
from byoc.ir.op import Op
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.expr import Call, Function
from byoc.runtime.modules.module import Module


class TorchGenerator(ProgramGenerator):
    """Writes the program of one region."""

    @makes(*KERNELS)
    def call(self, node: RegionNode, *arguments: int) -> list[int] | int:
        """One call, of any operator in the table; a composite has the attributes of its product."""
        call = node.call if isinstance(node.call.op, Op) else _product(node.call)
        return self.written(node, arguments, call.attrs)

    def compile(self, results: Sequence[int]) -> Module:
        program, signature = self.program(results)
        device, precision = (str(self.options.get(name, "")) for name in ("device", "precision"))
        return TorchModule({self.symbol: program}, [signature], device, precision or PRECISIONS[0])


def _product(call: Call) -> Call:
    return next(c for c in calls_in(call) if callee_name(c) in (*CONVOLUTIONS, "nn.dense"))


@register_backend
class TorchBackend(Backend):
    """Regions as programs of PyTorch's functions. Options: ``device`` (``cuda``, ``cuda:1``, ``cpu``; without it CUDA's
    first where the model runs and has one), ``precision`` (``f32``, or ``tf32`` for products on TF32).
    """

    name = "torch"
    options = ("device", "precision")
    needs_sizes = True
    deviations = (NAN_SPREAD,)  # its transposed convolutions multiply by zeros what others leave out
    constraints = TAKEN

    def unavailable(self) -> str | None:
        return torch_missing()

    def device_kind(self) -> str | None:
        if torch_missing() is not None:
            return None
        torch: Any = importlib.import_module("torch")
        return "gpu" if torch.cuda.is_available() else "cpu"

    def check_options(self, options: Mapping[str, object]) -> None:
        """Raises UserError for a device that is none, or a precision that products do not have."""
        precision = options.get("precision", PRECISIONS[0])
        if precision not in PRECISIONS:
            raise UserError(f"torch.precision: expected {' or '.join(PRECISIONS)}, got {precision!r}")
        problem = misnamed(str(options.get("device", "")))
        if problem is not None:
            raise UserError(problem)

    def patterns(self) -> Sequence[PatternEntry]:
        """Products with their bias."""
        rows = []
        for name, products in ((CONV_BIAS, CONVOLUTIONS), (DENSE_BIAS, ("nn.dense",))):
            for product in products:
                result = is_op(product)(wildcard(), wildcard())
                biased = is_op("nn.bias_add")(result, wildcard()) | is_op("add")(result, wildcard())
                rows.append(PatternEntry(name, biased, [one_for_each_channel]))
        return rows

    def compile(self, function: Function, options: Mapping[str, object]) -> Module:
        """The program of *function*."""
        return TorchGenerator(function, options).generate()
