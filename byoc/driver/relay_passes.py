"""The names of Relay's own passes, which contexts of Relay's users name whether byoc has such a pass or not.

Source: ``PassInfo`` names in ``src/relay`` of TVM 0.19. Passes of its other levels begin with the level's name.
"""

from __future__ import annotations

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


def is_of_relay(name: str) -> bool:
    """True for the name of a pass of Relay, or of another level of TVM.

    >>> is_of_relay("AlterOpLayout"), is_of_relay("tir.UnrollLoop"), is_of_relay("FoldConstnat")
    (True, True, False)
    """
    return name in RELAY_PASSES or name.startswith(LEVELS)
