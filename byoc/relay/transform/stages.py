"""What the host's share of a model goes through, and the passes before planning that few models need."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES
from byoc.ir.passes.transform import Pass, PassInfo, Sequential
from byoc.relay.analysis.contents import Contents
from byoc.relay.expr import Function, Let
from byoc.relay.narrowing import as_function
from byoc.relay.op.device_placement import DEVICE_COPY, ON_DEVICE
from byoc.relay.qnn.passes import NarrowIntegerProducts
from byoc.relay.transform.base.deferred_pass import (
    Condition,
    DeferredPass,
    always,
    where_any,
    where_attribute,
    where_called,
)
from byoc.relay.transform.base.infer_type import InferType
from byoc.relay.transform.fuse.carry_views import CarryViews
from byoc.relay.transform.fuse.fuse_ops import FuseHostOps
from byoc.relay.transform.fuse.join_groups import JoinGroups
from byoc.relay.transform.layout.channels_last import ChannelsLast
from byoc.relay.transform.simplify.dead_code import EliminateHostDeadCode
from byoc.relay.transform.simplify.expr import SimplifyHostExpr
from byoc.relay.transform.simplify.fold_constant import FoldHostConstant

# The passes of the host's share, from plain operators to groups that are one kernel each: steps of the pipeline, which
# users edit, and what cost models run to know the host's kernels.

CHANNELS_LAST = "layout channels_last"  # of compilations in which channels lie innermost where that pays
PRECISION = "Precision"  # where the passes stand that lower the precision
Item = Pass | tuple[Pass, str] | str


def fold_constant_scales(opt_level: int = 3) -> DeferredPass:
    """FoldConstantScales, where anything is multiplied at all; it is imported there."""
    info = PassInfo("FoldScaleAxis", opt_level, ("InferType",), gives=("typed",), ends=REWRITES)
    home = "byoc.relay.transform.scales.fold_constant_scales"
    return DeferredPass(info, home, "FoldConstantScales", where_called("multiply"), opt_level)


def _by_rules(name: str, key: str) -> DeferredPass:
    """A pass of ``relay.qnn.transform``, where an operator has a rule under *key*."""
    info = PassInfo(f"qnn.{name}", 1, ("InferType",), gives=("typed",), ends=REWRITES)
    return DeferredPass(info, "byoc.relay.qnn.transform", name, where_attribute(key))


def host_stage() -> Sequence[Item]:
    """The passes in order: each alone, or with the kind of compilation that it is for; ``PRECISION`` as a bare name."""
    return (
        _by_rules("Legalize", "FTVMQnnLegalize"),
        _by_rules("CanonicalizeOps", "FTVMQnnCanonicalize"),
        FoldHostConstant(fold_qnn=True),
        NarrowIntegerProducts(),
        FoldHostConstant(),
        EliminateHostDeadCode(),
        # channels innermost where that pays, weights turned round when compiling
        (ChannelsLast(), CHANNELS_LAST),
        (FoldHostConstant(), CHANNELS_LAST),
        (SimplifyHostExpr(), CHANNELS_LAST),
        CarryViews(),
        FoldHostConstant(),
        SimplifyHostExpr(),
        fold_constant_scales(0),
        PRECISION,
        FuseHostOps(),
        JoinGroups(),
        InferType(),
    )


def host_groups(function: Function) -> Function:
    """*function* after the host's stage, as values come and channels innermost where that pays: what is one kernel is a
    function with ``Primitive``.
    """
    passes = [item[0] if isinstance(item, tuple) else item for item in host_stage() if not isinstance(item, str)]
    return as_function(Sequential(passes, name="host_groups")(IRModule({"main": function}))["main"])


# The passes before planning that few models need, imported where they have something to do; a test compares what is
# stated here with the passes themselves.

ROOM = "byoc.relay.transform"
TYPED = ("InferType",)


def _over_functions(
    name: str,
    level: int,
    home: str,
    applies: Condition,
    required: Sequence[str] = TYPED,
    gives: Sequence[str] = (),
    maker: str = "",
) -> DeferredPass:
    info = PassInfo(name, level, required, gives=(*gives, "typed"), ends=REWRITES)
    return DeferredPass(info, f"{ROOM}.{home}", maker or name, applies)


def _calls_literals(contents: Contents) -> bool:
    return Function in contents.callees


def _has_annotations(contents: Contents) -> bool:
    return ON_DEVICE in contents.operators or DEVICE_COPY in contents.operators


def _has_lets(contents: Contents) -> bool:
    return Let in contents.nodes


def _has_others(mod: IRModule) -> bool:
    return len(mod.functions) > 1 or "main" not in mod


def remove_device_annotations() -> DeferredPass:
    """Where a value is annotated or copied."""
    home, applies = "simplify.remove_device_annotations", where_any(_has_annotations)
    return _over_functions("RemoveDeviceAnnotations", 0, home, applies, (), ("no_device_marks",))


def remove_unused_functions() -> DeferredPass:
    """Where there are others than ``main``."""
    info = PassInfo("RemoveUnusedFunctions", 1, TYPED, ends=())
    return DeferredPass(info, f"{ROOM}.simplify.remove_unused_functions", "RemoveUnusedFunctions", _has_others)


def inline_calls() -> DeferredPass:
    """Where a function literal is called."""
    return _over_functions("InlineCalls", 0, "functional.inline_calls", where_any(_calls_literals), ())


def to_graph_normal_form() -> DeferredPass:
    """Where a value is bound by ``let``."""
    home, applies = "functional.to_graph_normal_form", where_any(_has_lets)
    return _over_functions("ToGraphNormalForm", 1, home, applies, (), ("graph_normal_form",))


def alter_op_layout() -> DeferredPass:
    """Where an operator has a rule."""
    applies = where_attribute("FTVMAlterOpLayout")
    return _over_functions("AlterOpLayout", 3, "layout.alter_op_layout", applies)


def flatten_atrous_conv() -> DeferredPass:
    """Where a batch is cut into blocks."""
    applies = where_called("nn.space_to_batch_nd")
    return _over_functions("FlattenAtrousConv", 3, "simplify.flatten_atrous_conv", applies)


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
