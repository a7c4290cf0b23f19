"""The base of backends that hand regions to a library as ONNX models: each operator that can be written, and opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from byoc.contract import EVERY, Backend, constraint
from byoc.contract.signature import signature_of
from byoc.contract.verdict import Constraint
from byoc.contrib.call_alone import call_alone, zeros_like
from byoc.contrib.model_module import OnnxModule
from byoc.errors import CompileError, DeviceError, in_one_line
from byoc.ir.expr import RelayExpr
from byoc.ir.types import tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.onnx_writer import to_onnx, unwritable

SMALL = 64  # elements of a constant that a library may want to see


@constraint("onnx", of=EVERY)
def written_as_onnx(call: Call) -> str | None:
    """an operator that is written as ONNX says it, of tensors whose dimensions are numbers or named sizes"""
    for ty in (t for value in (call, *call.args) for t in tensor_types(value.checked_type)):
        if not ty.is_symbolic:
            return str(ty)
    return unwritable(call)


class OnnxBackend(Backend):
    """A subclass sets ``name``, ``module`` and ``constraints``, of which :func:`opened_by` is one."""

    module: ClassVar[type[OnnxModule]]
    options: Sequence[str] | None = ()

    def compile(self, function: Function, options: Mapping[str, object]) -> OnnxModule:
        """A module that holds the region as a model. Raises CompileError for one that the library does not open."""
        function = infer_function(function)
        symbol = str(function.attrs["global_symbol"])
        module = self.module(
            {symbol: to_onnx(function, symbol).SerializeToString()}, [signature_of(symbol, function, {})]
        )
        if module.unavailable() is None:
            try:
                module.session(symbol)
            except DeviceError:  # of the process, not of the region
                raise
            except Exception as error:
                raise CompileError(f"the library does not open the region: {in_one_line(error)}") from error
        return module


def opened_by(module: type[OnnxModule], text: str) -> Constraint:
    """The constraint that the library opens a model of the call alone; *text* says so. Where it is not installed, it
    takes all, so that one may plan for another machine.
    """
    known: dict[object, str | None] = {}

    def check(call: Call) -> str | None:
        empty = module({}, [])
        if unwritable(call) is not None or empty.unavailable() is not None:
            return None
        function = call_alone(call, _small)
        key = to_onnx(function).SerializeToString()
        if key not in known:
            try:
                empty.open(key)
                known[key] = None
            except Exception as error:  # whatever the library raises
                known[key] = in_one_line(error)
        return known[key]

    check.__doc__ = text
    return constraint("kernel", of=EVERY, machine=True)(check)


def _small(constant: Constant) -> RelayExpr | None:
    """What a library is given in the place of a constant: itself or zeros where it is small, which decide."""
    if constant.data.numpy().size > SMALL:
        return None
    return constant if constant.data.dtype == "string" else zeros_like(constant)


__all__ = ["OnnxBackend", "opened_by", "written_as_onnx"]
