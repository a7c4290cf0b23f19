"""The passes before planning that few models need, and what each is asked for: it is imported where it does something.

What is known of a pass stands here a second time; a test holds it to the pass itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES
from byoc.ir.passes.transform import PassInfo
from byoc.relay.expr import Call, Function, Let
from byoc.relay.op.device_placement import is_device_copy, is_on_device
from byoc.relay.transform.base.deferred_pass import (
    DeferredPass,
    Question,
    always,
    where_any,
    where_attribute,
    where_called,
)

ROOM = "byoc.relay.transform"
TYPED = ("InferType",)


def _over_functions(
    name: str,
    level: int,
    home: str,
    asks: Question,
    required: Sequence[str] = TYPED,
    gives: Sequence[str] = (),
    maker: str = "",
) -> DeferredPass:
    info = PassInfo(name, level, required, gives=(*gives, "typed"), ends=REWRITES)
    return DeferredPass(info, f"{ROOM}.{home}", maker or name, asks)


def _is_plain_call(node: RelayExpr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Function)


def _is_annotation(node: RelayExpr) -> bool:
    return is_on_device(node) or is_device_copy(node)


def _has_others(mod: IRModule) -> bool:
    return len(mod.functions) > 1 or "main" not in mod


def remove_device_annotations() -> DeferredPass:
    """Where a value is annotated or copied."""
    home, asks = "simplify.remove_device_annotations", where_any(_is_annotation)
    return _over_functions("RemoveDeviceAnnotations", 0, home, asks, (), ("no_device_marks",))


def remove_unused_functions() -> DeferredPass:
    """Where there are others than ``main``."""
    info = PassInfo("RemoveUnusedFunctions", 1, TYPED, ends=())
    return DeferredPass(info, f"{ROOM}.simplify.remove_unused_functions", "RemoveUnusedFunctions", _has_others)


def inline_calls() -> DeferredPass:
    """Where a function literal is called."""
    return _over_functions("InlineCalls", 0, "functional.inline_calls", where_any(_is_plain_call), ())


def to_graph_normal_form() -> DeferredPass:
    """Where a value is bound by ``let``."""
    home, asks = "functional.to_graph_normal_form", where_any(lambda node: isinstance(node, Let))
    return _over_functions("ToGraphNormalForm", 1, home, asks, (), ("graph_normal_form",))


def alter_op_layout() -> DeferredPass:
    """Where an operator has a rule."""
    asks = where_attribute("FTVMAlterOpLayout")
    return _over_functions("AlterOpLayout", 3, "layout.alter_op_layout", asks)


def flatten_atrous_conv() -> DeferredPass:
    """Where a batch is cut into blocks."""
    asks = where_called("nn.space_to_batch_nd")
    return _over_functions("FlattenAtrousConv", 3, "simplify.flatten_atrous_conv", asks)


def combine_parallel() -> tuple[DeferredPass, ...]:
    """From level 4, or where they are required."""
    return (
        _over_functions(
            "CombineParallelConv2d", 4, "fuse.combine_parallel_conv2d", always, maker="CombineParallelConv2D"
        ),
        _over_functions("CombineParallelDense", 4, "fuse.combine_parallel_dense", always),
        _over_functions("CombineParallelBatchMatmul", 4, "fuse.combine_parallel_batch_matmul", always),
    )


def fast_math() -> DeferredPass:
    """From level 4, or where it is required."""
    return _over_functions("FastMath", 4, "simplify.fast_math", always)
