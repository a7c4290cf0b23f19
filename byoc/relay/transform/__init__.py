"""Passes over modules, under the names that Relay's users know, each loaded when it is first used.

Source: ``relay.transform``.
"""

from byoc.ir.registry import register_func
from byoc.lazy_names import lazy_names
from byoc.relay.transform.recast import recast

# name -> the module that defines it; the same imports stand in __init__.pyi
_HOMES = {
    "AlterOpLayout": ".layout.alter_op_layout",
    "AnnotateSpans": ".base.annotate_spans",
    "AnnotateTarget": ".cut.annotate_target",
    "BackwardFoldScaleAxis": ".scales.fold_scale_axis",
    "CanonicalizeCast": ".simplify.canonicalize_cast",
    "CanonicalizeOps": ".simplify.canonicalize_ops",
    "CapturePostDfsIndexInSpans": ".collage_partition",
    "CarryViews": ".fuse.carry_views",
    "ChannelsLast": ".layout.channels_last",
    "CollagePartition": ".collage_partition",
    "CombineParallelBatchMatmul": ".fuse.combine_parallel_batch_matmul",
    "CombineParallelConv2D": ".fuse.combine_parallel_conv2d",
    "CombineParallelDense": ".fuse.combine_parallel_dense",
    "CompositeRecord": ".cut.merge_composite",
    "Conv2dToSparse": ".to_sparse",
    "Conv2dToSparse2": ".to_sparse",
    "ConvertLayout": ".layout.convert_layout",
    "DeadCodeElimination": ".simplify.dead_code",
    "Defunctionalization": ".functional.defunctionalization",
    "DefuseOps": ".fuse.fuse_ops",
    "DenseToSparse": ".to_sparse",
    "DivToMul": ".simplify.div_to_mul",
    "DynamicToStatic": ".simplify.fold_constant",
    "EliminateCommonSubexpr": ".simplify.common_subexpr",
    "EtaExpand": ".functional.eta_expand",
    "FailedCheck": ".cut.merge_composite",
    "FakeQuantizationToInteger": ".fake_quantization_to_integer",
    "FastMath": ".simplify.fast_math",
    "FirstOrderGradient": ".gradients.first_order_gradient",
    "FlattenAtrousConv": ".simplify.flatten_atrous_conv",
    "FoldConstant": ".simplify.fold_constant",
    "FoldConstantExpr": ".simplify.fold_constant",
    "FoldExplicitPadding": ".simplify.fold_explicit_padding",
    "FoldScaleAxis": ".scales.fold_scale_axis",
    "ForwardFoldScaleAxis": ".scales.fold_scale_axis",
    "FunctionPass": ".base.infer_type",
    "FuseOps": ".fuse.fuse_ops",
    "GraphVisualize": ".base.graph_visualize",
    "InferType": ".base.infer_type",
    "Inline": ".functional.inline",
    "InlineCalls": ".functional.inline_calls",
    "InlineCompilerFunctionsBoundTo": ".cut.compiler_functions",
    "InlineComposites": ".cut.compiler_functions",
    "JoinGroups": ".fuse.join_groups",
    "LambdaLift": ".functional.lambda_lift",
    "LayoutConfig": ".layout.config",
    "LazyGradientInit": ".gradients.lazy_gradient_init",
    "Legalize": ".base.legalize",
    "ManifestLifetimes": ".memory.manifest_lifetimes",
    "MarkCompilerFunctionsAsExtern": ".cut.compiler_functions",
    "MergeCompilerRegions": ".cut.merge_compiler_regions",
    "MergeComposite": ".cut.merge_composite",
    "ModulePass": "byoc.ir.transform",
    "OutlineCompilerFunctionsWithExistingGlobalSymbols": ".cut.compiler_functions",
    "PartialEvaluate": ".functional.partial_evaluate",
    "PartitionGraph": ".cut.partition_graph",
    "Pass": "byoc.ir.transform",
    "PassContext": "byoc.ir.transform",
    "PassInfo": "byoc.ir.transform",
    "PassInstrument": "byoc.ir.transform",
    "PassTimingInstrument": "byoc.ir.transform",
    "PlanDevices": ".devices.plan_devices",
    "RemoveDeviceAnnotations": ".devices.remove_device_annotations",
    "RemoveUnusedFunctions": ".simplify.remove_unused_functions",
    "Sequential": "byoc.ir.transform",
    "SimplifyExpr": ".simplify.expr",
    "SimplifyExprPostAlterOp": ".simplify.expr",
    "SimplifyFCTranspose": ".simplify.fc_transpose",
    "SimplifyInference": ".simplify.inference",
    "SpecializeShapes": ".simplify.specialize_shapes",
    "ToANormalForm": ".functional.to_a_normal_form",
    "ToANormalFormExpr": ".functional.to_a_normal_form",
    "ToBasicBlockNormalForm": ".functional.to_basic_block_normal_form",
    "ToGraphNormalForm": ".functional.to_graph_normal_form",
    "ToMixedPrecision": ".to_mixed_precision",
    "function_pass": ".base.infer_type",
    "fuse_function": ".fuse.fuse_ops",
    "gradient": ".gradients.gradient",
    "module_pass": "byoc.ir.transform",
    "register_config_option": "byoc.ir.transform",
    "to_cps": ".functional.to_cps",
    "un_cps": ".functional.to_cps",
}

__all__ = sorted([*_HOMES, "recast"])  # recast is also the name of its module, which TVM has, and so is here at once
__getattr__, __dir__ = lazy_names(__name__, _HOMES)


def _register(name: str, alias: str = "") -> None:
    """Register pass *name*, or its *alias*: what a pass requires is found by its name, as in Relay."""
    key = f"relay._transform.{alias or name}"
    register_func(key, lambda *arguments: __getattr__(name)(*arguments), override=True)


for _name in __all__:
    _register(_name)
for _name in ("graph_visualize", "graph_visualize_pass"):  # as Paddle Lite's lists of passes have it
    _register("GraphVisualize", _name)
