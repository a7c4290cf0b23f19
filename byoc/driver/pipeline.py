"""The passes from an imported model to one that can be cut, and from a cut one to one that the host can run.

Read top to bottom: :func:`pipeline` is the order in which everything happens to a graph. Between its two stages the
model is planned and cut (``byoc.partition``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.driver.pass_list import LEVEL, Pipeline, PipelineStep, labelled
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import NAMES_OF_PASSES
from byoc.ir.passes.transform import Pass, PassContext, Sequential
from byoc.relay import transform
from byoc.relay.qnn.passes import LowerOnnxQuantization, QuantizedProducts
from byoc.relay.transform import stages as later
from byoc.relay.transform.simplify.dead_code import EliminateHostDeadCode
from byoc.relay.transform.simplify.expr import SimplifyHostExpr
from byoc.relay.transform.simplify.fold_constant import FoldHostConstant
from byoc.relay.transform.stages import PRECISION, Item, fold_constant_scales, host_stage

# in which order the host's values lie: what is cheapest, or as the model has them
LAYOUTS = ("channels_last", "default")
SIMPLIFY, HOST = "simplify", "host"  # the stages: before planning, and the host's share after the cut
INT8 = "precision int8"
INTEGERS_MADE = "integers_of_onnx"  # the attribute of a module whose integers were made for targets
LOWERED = "no target that computes on integers"  # else quantized operators stay until the model is cut


def pipeline() -> Pipeline:
    """The passes of :func:`byoc.compile` by name, to read and to edit.

    Stage ``simplify`` is what is worth doing whoever runs the model; it ensures types, and that what a constant decides
    is decided. Legalize and AlterOpLayout do what is registered on operators, and else nothing. Then the model is
    planned and cut. Stage ``host`` is for the host's share: quantized operators lowered, the layout chosen, what
    belongs to one product or sum brought next to it, constant scales taken up by its weights, the precision lowered,
    the rest fused into groups. It requires regions to be functions of the module.

    >>> pipeline().remove("EliminateCommonSubexpr").stages["simplify"][:3]
    ('InferType', 'LowerOnnxQuantization', 'QuantizedProducts')
    """
    return Pipeline(labelled({SIMPLIFY: _simplify(), HOST: _host()}))


def _simplify() -> Sequence[PipelineStep]:
    return _steps(
        transform.InferType(),
        (LowerOnnxQuantization(), LOWERED),
        (QuantizedProducts(), INT8),
        later.remove_device_annotations(),
        transform.OutlineCompilerFunctionsWithExistingGlobalSymbols(),
        later.remove_unused_functions(),
        later.inline_calls(),
        later.to_graph_normal_form(),
        transform.Legalize(),
        transform.SimplifyInference(decompose_norms=False),  # whole norms have schedules of their own
        FoldHostConstant(),
        fold_constant_scales(),
        SimplifyHostExpr(),
        transform.EliminateCommonSubexpr(),
        *later.combine_parallel(),  # these three from level 4, or where they are required
        later.flatten_atrous_conv(),
        later.alter_op_layout(),
        later.fast_math(),  # from level 4, or where it is required
        FoldHostConstant(),
        EliminateHostDeadCode(),
        transform.InferType(),
    )


def _host() -> Sequence[PipelineStep]:
    return _steps(*host_stage())


def _steps(*items: Item) -> list[PipelineStep]:
    """A step for each pass, for each pass with the kind of compilation that it is for, and for each bare name."""
    steps = []
    for item in items:
        run, when = item if isinstance(item, tuple) else (item, "")
        steps.append(PipelineStep(run, None) if isinstance(run, str) else PipelineStep(run.info.name, run, when))
    return steps


def simplify(chosen: Pipeline | None = None, precision: str = "f32", integers: bool = False) -> Sequential:
    """The stage ``simplify`` of *chosen*, or of the pipeline as it comes.

    With *integers* a target computes on integers, and quantized operators stay.
    """
    kinds = [] if integers else [f"precision {precision}", LOWERED]
    return Sequential((chosen or pipeline()).passes(SIMPLIFY, kinds), name=SIMPLIFY)


def host_layout(options: Mapping[str, object]) -> str:
    """The option ``layout`` of backend c, one of ``LAYOUTS``. Raises UserError for anything else."""
    layout = options.get("layout", LAYOUTS[0])
    if layout not in LAYOUTS:
        raise UserError(f"option 'layout' of backend c is one of {', '.join(LAYOUTS)}, got {layout!r}")
    return str(layout)


def prepare_host(
    layout: str = LAYOUTS[0], precision: Sequence[Pass] = (), chosen: Pipeline | None = None
) -> Sequential:
    """The stage ``host`` of *chosen*, or of the pipeline as it comes.

    *layout*, one of ``LAYOUTS``: ``"default"`` leaves the axes of every value as the model has them. *precision*
    are the passes that lower it.
    """
    passes = (chosen or pipeline()).passes(HOST, [f"layout {layout}"], {PRECISION: precision})
    return Sequential(passes, name="prepare_host")


def at_least_level_3() -> PassContext:
    """The current context raised to the level at which every pass of the pipeline runs."""
    ctx = PassContext.current()
    level = max(ctx.opt_level, LEVEL)
    return PassContext(level, ctx.required_pass, ctx.disabled_pass, ctx.instruments, ctx.config)


def check_pass_names(chosen: Pipeline | None = None) -> None:
    """The context's ``disabled_pass`` and ``required_pass`` name passes that exist, those of *chosen* among them.

    Raises UserError with the nearest names, before anything runs; a context itself asks when it is left.
    """
    if chosen is not None:
        NAMES_OF_PASSES.update(step.name for step in chosen.steps())
    PassContext.current().check_names()


def optimize(mod: IRModule, chosen: Pipeline | None = None, precision: str = "f32", integers: bool = False) -> IRModule:
    """*mod* after :func:`simplify`. A pass that the current context disables is left out."""
    with at_least_level_3():
        return simplify(chosen, precision, integers)(mod)
