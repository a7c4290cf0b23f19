"""The names that contexts may give to passes: Relay's own, whether byoc has such a pass or not, and byoc's.

A pass has its name from when it is made, by modules that are imported when they are needed, so that the names of byoc's
stand in ``own_passes.txt``, written by ``tools.health.deferred_names``. Source: ``PassInfo`` names in
``src/relay`` of TVM 0.19. Passes of its other levels begin with the level's name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from byoc.errors import UserError
from byoc.ir.passes.pass_info import NAMES_OF_PASSES

LEVELS = ("tir.", "relax.", "relay.", "meta_schedule.", "tvm.")
RELAY_PASSES = frozenset(
    """
    AlterOpLayout AnnotateMemoryScope AnnotateSpans AnnotateTarget AnnotateTargetFunc AnnotateUsedMemory
    AutoSchedulerLayoutRewrite BackwardFoldScaleAxis BindTarget CanonicalizeCast CanonicalizeOps
    CapturePostDfsIndexInSpans CollagePartition CombineParallelBatchMatmul CombineParallelConv2D CombineParallelConv2d
    CombineParallelDense Conv2dToSparse Conv2dToSparse2 ConvertLayout DeadCodeElimination Defunctionalization DefuseOps
    DenseToSparse DivToMul DynamicToStatic EliminateCommonSubexpr EtaExpand FakeQuantizationToInteger FastMath
    FirstOrderGradient FlattenAtrousConv FlattenNestedTuples FoldConstant FoldExplicitPadding FoldScaleAxis
    ForwardFoldScaleAxis FuseOps GetPass InferType Inline InlineComposites InlineCompilerFunctionsBoundTo InlineGlobals
    InlinePrimitives LabelOps LambdaLift LambdaLifter LazyGradientInit Legalize LowerTE LowerTEPass ManifestAlloc
    ManifestLifetimes MarkCompilerFunctionsAsExtern MemoryPlan MergeCompilerRegions MergeComposite
    MetaScheduleLayoutRewrite OutlineCompilerFunctions OutlineCompilerFunctionsWithExistingGlobalSymbols
    PartialEvaluate PartitionGraph PlanDevices PlanDevicesCore PlanDevicesRewrite PrintIR QuantizeAnnotate
    QuantizeCalibrate QuantizePartition QuantizeRealize QuantizeRealizePostProcess RelayToTIR RelayToTIRTargetHook
    RemoveStandaloneReshapes RemoveUnusedFunctions SimplifyExpr SimplifyExprPostAlterOp SimplifyFCTranspose
    SimplifyInference SpanCheck SplitArgs ToANormalForm ToBasicBlockNormalForm ToCPS ToGraphNormalForm ToMixedPrecision
    UnCPS VMShapeFuncs WarnIfMalformed qnn.CanonicalizeOps qnn.Legalize
    """.split()
)
_ELSEWHERE = ("InlineNonComputeIntensivePartitions", "Precision")  # of vendors' modules, and of the pipeline
OWN_PASSES = frozenset([*_ELSEWHERE, *Path(__file__).with_name("own_passes.txt").read_text("utf-8").split()])


def is_of_relay(name: str) -> bool:
    """True for the name of a pass of Relay, or of another level of TVM.

    >>> is_of_relay("AlterOpLayout"), is_of_relay("tir.UnrollLoop"), is_of_relay("FoldConstnat")
    (True, True, False)
    """
    return name in RELAY_PASSES or name.startswith(LEVELS)


def check_names(names: Iterable[str], field: str) -> None:
    """Raises UserError, with the nearest names, for one of *names* that is no pass of this process, Relay's or byoc's.

    *field* is what of a context holds them.
    """
    for name in names:
        if not (name in NAMES_OF_PASSES or name in OWN_PASSES or is_of_relay(name)):
            near = difflib.get_close_matches(name, sorted(NAMES_OF_PASSES | OWN_PASSES | RELAY_PASSES))
            hint = f"the nearest: {', '.join(near)}" if near else "print(byoc.pipeline()) shows byoc's own"
            raise UserError(f"{field} of the PassContext: no pass is called {name!r}; {hint}")
