"""The passes from an imported model to one that can be cut, and from a cut one to one that the host can run.

Read top to bottom: this is the order in which everything happens to a graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.ir.transform import Pass, PassContext, Sequential
from byoc.relay import transform
from byoc.relay.qnn import transform as qnn_transform
from byoc.relay.transform.fuse.fuse_ops import FuseHostOps
from byoc.relay.transform.narrow_integers import NarrowIntegerProducts
from byoc.relay.transform.scales.fold_constant_scales import FoldConstantScales
from byoc.relay.transform.simplify.dead_code import EliminateHostDeadCode
from byoc.relay.transform.simplify.expr import SimplifyHostExpr
from byoc.relay.transform.simplify.fold_constant import FoldHostConstant

PIPELINE_LEVEL = 3
# in which order the host's values lie: what is cheapest, or as the model has them
LAYOUTS = ("channels_last", "default")


def simplify() -> Sequential:
    """What is worth doing whoever runs the model: ensures types, and that what a constant decides is decided.

    Legalize and AlterOpLayout do what is registered on operators, and else nothing.
    """
    return Sequential(
        [
            transform.InferType(),
            transform.RemoveDeviceAnnotations(),
            transform.OutlineCompilerFunctionsWithExistingGlobalSymbols(),
            transform.RemoveUnusedFunctions(),
            transform.InlineCalls(),
            transform.ToGraphNormalForm(),
            transform.Legalize(),
            transform.SimplifyInference(decompose_norms=False),  # whole norms have schedules of their own
            FoldHostConstant(),
            FoldConstantScales(),
            SimplifyHostExpr(),
            transform.EliminateCommonSubexpr(),
            # these three from level 4, or where they are required
            transform.CombineParallelConv2D(),
            transform.CombineParallelDense(),
            transform.CombineParallelBatchMatmul(),
            transform.FlattenAtrousConv(),
            transform.AlterOpLayout(),
            transform.FastMath(),  # from level 4, or where it is required
            FoldHostConstant(),
            EliminateHostDeadCode(),
            transform.InferType(),
        ],
        name="simplify",
    )


def host_layout(options: Mapping[str, object]) -> str:
    """The option ``layout`` of backend c, one of ``LAYOUTS``. Raises UserError for anything else."""
    layout = options.get("layout", LAYOUTS[0])
    if layout not in LAYOUTS:
        raise UserError(f"option 'layout' of backend c is one of {', '.join(LAYOUTS)}, got {layout!r}")
    return str(layout)


def prepare_host(layout: str = LAYOUTS[0], precision: Sequence[Pass] = ()) -> Sequential:
    """The host's share after the cut: quantized operators lowered, the layout chosen, the rest fused into groups.

    *layout*, one of ``LAYOUTS``: ``"default"`` leaves the axes of every value as the model has them. *precision*
    are the passes that lower it. Requires regions to be functions of the module.
    """
    return Sequential(
        [
            qnn_transform.Legalize(),
            qnn_transform.CanonicalizeOps(),
            FoldHostConstant(fold_qnn=True),
            NarrowIntegerProducts(),
            FoldHostConstant(),
            EliminateHostDeadCode(),
            *(choose_layout() if layout == LAYOUTS[0] else ()),
            *gather_work(),
            *precision,
            FuseHostOps(),
            transform.JoinGroups(),
            transform.InferType(),
        ],
        name="prepare_host",
    )


def choose_layout() -> Sequence[Pass]:
    """Channels innermost where that pays, weights turned round when compiling."""
    return (transform.ChannelsLast(), FoldHostConstant(), SimplifyHostExpr())


def gather_work() -> Sequence[Pass]:
    """What belongs to one product or sum brought next to it, constant scales taken up by its weights."""
    return (transform.CarryViews(), FoldHostConstant(), SimplifyHostExpr(), FoldConstantScales(0))


def at_least_level_3() -> PassContext:
    """The current context raised to the level at which every pass of the pipeline runs."""
    ctx = PassContext.current()
    level = max(ctx.opt_level, PIPELINE_LEVEL)
    return PassContext(level, ctx.required_pass, ctx.disabled_pass, ctx.instruments, ctx.config)


def optimize(mod: IRModule) -> IRModule:
    """*mod* after :func:`simplify`. A pass that the current context disables is left out."""
    with at_least_level_3():
        return simplify()(mod)
