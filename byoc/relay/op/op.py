"""Registering operators and what passes ask of them, by Relay's calls. Source: ``relay.op.op``.

An operator is a name with attributes; each function here keeps what it is given under the name that Relay's passes look
for. What concerns schedules (``FTVMCompute``, ``FTVMStrategy``) is kept and never asked for: code is generated from
the tensor expressions that stand on the operators.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from byoc.errors import RegistryError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OPS, Op, OpPattern, Sample, register_op, register_op_attr
from byoc.ir.op import get_op as get
from byoc.ir.registry import caller_location, register_func
from byoc.ir.types import Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.type_relations import broadcast, broadcast_compare, identity
from byoc.runtime.kernels.debug import DEBUG_FUNCTIONS, DebugFunction

Rule = Callable[..., object]
Decorator = Callable[[object], object]

for _name, _relation in (("Identity", identity), ("Broadcast", broadcast), ("BroadcastComp", broadcast_compare)):
    register_func(f"tvm.relay.type_relation.{_name}", _relation)


def register(op_name: str, describe: str = "") -> Op:
    """Make an operator of which only the name is known; its ``set_…`` and ``add_…`` methods complete it.

    Raises RegistryError when the name is taken. Source: ``relay.op.register``.
    """
    if op_name in OPS:
        raise RegistryError(f"operator {op_name!r} is registered already, at {OPS.place(op_name)}")
    op = Op(op_name)
    op.description = describe
    OPS.register(op_name, op, where=caller_location())
    return op


def register_pattern(op_name: str, pattern: int | OpPattern, level: int = 10) -> object:
    """Say how an operator may be fused. Source: ``relay.op.register_pattern``."""
    result = register_op_attr(op_name, "TOpPattern", int(pattern), level)
    OPS[op_name].pattern = OpPattern(pattern)
    return result


def register_stateful(op_name: str, stateful: bool, level: int = 10) -> object:
    """Say whether an operator has a state, so that no pass removes or joins its calls."""
    return register_op_attr(op_name, "TOpIsStateful", stateful, level)


def register_compute(op_name: str, compute: Rule | None = None, level: int = 10) -> Callable[..., Any]:
    """Keep a function under ``FTVMCompute``. Source: ``relay.op.register_compute``."""
    result: Callable[..., Any] = register_op_attr(op_name, "FTVMCompute", compute, level)
    return result


def register_strategy(op_name: str, fstrategy: Rule | None = None, level: int = 10) -> Callable[..., Any]:
    """Keep a function under ``FTVMStrategy``. Source: ``relay.op.register_strategy``."""
    result: Callable[..., Any] = register_op_attr(op_name, "FTVMStrategy", fstrategy, level)
    return result


def register_schedule(op_name: str, schedule: Rule, level: int = 10) -> object:
    """Keep a schedule as the operator's strategy. Source: ``relay.op.register_schedule``."""
    return register_op_attr(op_name, "FTVMStrategy", schedule, level)


def register_injective_schedule(op_name: str, level: int = 10) -> object:
    """Say that the operator is scheduled as an injective one. Source: ``relay.op.register_injective_schedule``."""
    return register_op_attr(op_name, "FTVMStrategy", "injective", level)


def register_broadcast_schedule(op_name: str, level: int = 10) -> object:
    """Say that the operator is scheduled as a broadcast. Source: ``relay.op.register_broadcast_schedule``."""
    return register_op_attr(op_name, "FTVMStrategy", "broadcast", level)


def register_reduce_schedule(op_name: str, level: int = 10) -> object:
    """Say that the operator is scheduled as a reduction. Source: ``relay.op.register_reduce_schedule``."""
    return register_op_attr(op_name, "FTVMStrategy", "reduce", level)


def register_legalize(op_name: str, legal_op: Rule | None = None, level: int = 10) -> Callable[..., Any]:
    """Keep a function under ``FTVMLegalize``. Source: ``relay.op.register_legalize``."""
    result: Callable[..., Any] = register_op_attr(op_name, "FTVMLegalize", legal_op, level)
    return result


def register_alter_op_layout(op_name: str, alter_layout: Rule | None = None, level: int = 10) -> Callable[..., Any]:
    """Keep a function under ``FTVMAlterOpLayout``. Source: ``relay.op.register_alter_op_layout``."""
    result: Callable[..., Any] = register_op_attr(op_name, "FTVMAlterOpLayout", alter_layout, level)
    return result


def register_convert_op_layout(op_name: str, convert_layout: Rule | None = None, level: int = 10) -> Callable[..., Any]:
    """Keep a function under ``FTVMConvertOpLayout``. Source: ``relay.op.register_convert_op_layout``."""
    result: Callable[..., Any] = register_op_attr(op_name, "FTVMConvertOpLayout", convert_layout, level)
    return result


def register_infer_correct_layout(
    op_name: str, infer_layout: Rule | None = None, level: int = 10
) -> Callable[..., Any]:
    """Keep a function under ``FInferCorrectLayout``. Source: ``relay.op.register_infer_correct_layout``."""
    result: Callable[..., Any] = register_op_attr(op_name, "FInferCorrectLayout", infer_layout, level)
    return result


def register_gradient(op_name: str, fgradient: Rule | None = None, level: int = 10) -> Callable[..., Any]:
    """Keep a function under ``FPrimalGradient``. Source: ``relay.op.register_gradient``."""
    result: Callable[..., Any] = register_op_attr(op_name, "FPrimalGradient", fgradient, level)
    return result


def register_shape_func(
    op_name: str, data_dependent: bool | Sequence[bool], shape_func: Rule | None = None, level: int = 10
) -> object:
    """Keep a shape function, and for each input whether it reads the numbers or only the shape.

    Source: ``relay.op.register_shape_func``.
    """
    flags = [data_dependent] if isinstance(data_dependent, bool) else list(data_dependent)
    get(op_name).set_attr("TShapeDataDependent", flags, level)
    return register_op_attr(op_name, "FShapeFunc", shape_func, level)


def register_external_compiler(op_name: str, fexternal: Rule | None = None, level: int = 10) -> Callable[..., Any]:
    """Keep a function under ``FTVMExternalCompiler``. Source: ``relay.op.register_external_compiler``."""
    result: Callable[..., Any] = register_op_attr(op_name, "FTVMExternalCompiler", fexternal, level)
    return result


def register_fake_quantization_to_integer(
    op_name: str, func: Rule | None = None, level: int = 10
) -> Callable[..., Any]:
    """Keep a function under ``FTVMFakeQuantizationToInteger``."""
    result: Callable[..., Any] = register_op_attr(op_name, "FTVMFakeQuantizationToInteger", func, level)
    return result


def register_optional_fake_quantization_to_integer(
    op_name: str, func: Rule | None = None, level: int = 10
) -> Callable[..., Any]:
    """Keep a function under ``FTVMOptionalFakeQuantizationToInteger``."""
    result: Callable[..., Any] = register_op_attr(op_name, "FTVMOptionalFakeQuantizationToInteger", func, level)
    return result


def register_mixed_precision_conversion(op_name: str, func: Rule | None = None, level: int = 10) -> Callable[..., Any]:
    """Keep a function under ``FTVMMixedPrecisionConversionType``."""
    result: Callable[..., Any] = register_op_attr(op_name, "FTVMMixedPrecisionConversionType", func, level)
    return result


@dataclass(frozen=True)
class DebugAttrs(Attrs):
    """Attributes of ``debug``: the name of the function that is called with the value, or nothing for a debugger."""

    debug_func: str = ""


def _debug_rel(types: Sequence[Type], attrs: DebugAttrs) -> Type:
    return types[0]


register_op(
    "debug",
    inputs=("program",),
    attrs=DebugAttrs,
    rel=_debug_rel,
    doc="The value unchanged; on the way it is shown to a function, or to a debugger.",
    samples=(Sample([(2, 3)], {"debug_func": "ignore"}),),
)
get("debug").set_attr("TOpIsStateful", True)
_numbers = itertools.count()


def debug(expr: RelayExpr, debug_func: DebugFunction | None = None) -> Call:
    """*expr*, whose value is given to *debug_func* when it is computed; without one a debugger stops there.

    Source: ``relay.op.debug``.
    """
    name = ""
    if debug_func is not None:
        name = f"debugger_func{next(_numbers)}"
        register_func(name, debug_func)
        DEBUG_FUNCTIONS[name] = debug_func
    return make_call("debug", [expr], DebugAttrs(name))
