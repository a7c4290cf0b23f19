"""What the host's share of a model goes through, from plain operators to the groups of which each is one kernel.

The pipeline names these passes, for users to edit; cost models run them to know which kernels the host would make.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES
from byoc.ir.passes.transform import Pass, PassInfo, Sequential
from byoc.relay.expr import Function
from byoc.relay.narrowing import as_function
from byoc.relay.qnn.passes import NarrowIntegerProducts
from byoc.relay.transform.base.deferred_pass import DeferredPass, where_attribute, where_called
from byoc.relay.transform.base.infer_type import InferType
from byoc.relay.transform.fuse.carry_views import CarryViews
from byoc.relay.transform.fuse.fuse_ops import FuseHostOps
from byoc.relay.transform.fuse.join_groups import JoinGroups
from byoc.relay.transform.layout.channels_last import ChannelsLast
from byoc.relay.transform.simplify.dead_code import EliminateHostDeadCode
from byoc.relay.transform.simplify.expr import SimplifyHostExpr
from byoc.relay.transform.simplify.fold_constant import FoldHostConstant

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
