"""Passes over modules, under the names that Relay's users know. Source: ``relay.transform``."""

from byoc.ir.registry import register_func
from byoc.ir.transform import (
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    PassInstrument,
    PassTimingInstrument,
    Sequential,
    module_pass,
    register_config_option,
)
from byoc.relay.transform.base.annotate_spans import AnnotateSpans
from byoc.relay.transform.base.graph_visualize import GraphVisualize
from byoc.relay.transform.base.infer_type import FunctionPass, InferType, function_pass
from byoc.relay.transform.base.legalize import Legalize
from byoc.relay.transform.collage_partition import CapturePostDfsIndexInSpans, CollagePartition
from byoc.relay.transform.cut.annotate_target import AnnotateTarget
from byoc.relay.transform.cut.compiler_functions import (
    InlineCompilerFunctionsBoundTo,
    InlineComposites,
    MarkCompilerFunctionsAsExtern,
    OutlineCompilerFunctionsWithExistingGlobalSymbols,
)
from byoc.relay.transform.cut.merge_compiler_regions import MergeCompilerRegions
from byoc.relay.transform.cut.merge_composite import CompositeRecord, FailedCheck, MergeComposite
from byoc.relay.transform.cut.partition_graph import PartitionGraph
from byoc.relay.transform.devices.plan_devices import PlanDevices
from byoc.relay.transform.devices.remove_device_annotations import RemoveDeviceAnnotations
from byoc.relay.transform.fake_quantization_to_integer import FakeQuantizationToInteger
from byoc.relay.transform.functional.defunctionalization import Defunctionalization
from byoc.relay.transform.functional.eta_expand import EtaExpand
from byoc.relay.transform.functional.inline import Inline
from byoc.relay.transform.functional.inline_calls import InlineCalls
from byoc.relay.transform.functional.lambda_lift import LambdaLift
from byoc.relay.transform.functional.partial_evaluate import PartialEvaluate
from byoc.relay.transform.functional.to_a_normal_form import ToANormalForm, ToANormalFormExpr
from byoc.relay.transform.functional.to_basic_block_normal_form import ToBasicBlockNormalForm
from byoc.relay.transform.functional.to_cps import to_cps, un_cps
from byoc.relay.transform.functional.to_graph_normal_form import ToGraphNormalForm
from byoc.relay.transform.fuse.carry_views import CarryViews
from byoc.relay.transform.fuse.combine_parallel_batch_matmul import CombineParallelBatchMatmul
from byoc.relay.transform.fuse.combine_parallel_conv2d import CombineParallelConv2D
from byoc.relay.transform.fuse.combine_parallel_dense import CombineParallelDense
from byoc.relay.transform.fuse.fuse_ops import DefuseOps, FuseOps, fuse_function
from byoc.relay.transform.fuse.join_groups import JoinGroups
from byoc.relay.transform.gradients.first_order_gradient import FirstOrderGradient
from byoc.relay.transform.gradients.gradient import gradient
from byoc.relay.transform.gradients.lazy_gradient_init import LazyGradientInit
from byoc.relay.transform.layout.alter_op_layout import AlterOpLayout
from byoc.relay.transform.layout.channels_last import ChannelsLast
from byoc.relay.transform.layout.config import LayoutConfig
from byoc.relay.transform.layout.convert_layout import ConvertLayout
from byoc.relay.transform.memory.manifest_lifetimes import ManifestLifetimes
from byoc.relay.transform.recast import recast
from byoc.relay.transform.scales.fold_scale_axis import BackwardFoldScaleAxis, FoldScaleAxis, ForwardFoldScaleAxis
from byoc.relay.transform.simplify.canonicalize_cast import CanonicalizeCast
from byoc.relay.transform.simplify.canonicalize_ops import CanonicalizeOps
from byoc.relay.transform.simplify.common_subexpr import EliminateCommonSubexpr
from byoc.relay.transform.simplify.dead_code import DeadCodeElimination
from byoc.relay.transform.simplify.div_to_mul import DivToMul
from byoc.relay.transform.simplify.expr import SimplifyExpr, SimplifyExprPostAlterOp
from byoc.relay.transform.simplify.fast_math import FastMath
from byoc.relay.transform.simplify.fc_transpose import SimplifyFCTranspose
from byoc.relay.transform.simplify.flatten_atrous_conv import FlattenAtrousConv
from byoc.relay.transform.simplify.fold_constant import DynamicToStatic, FoldConstant, FoldConstantExpr
from byoc.relay.transform.simplify.fold_explicit_padding import FoldExplicitPadding
from byoc.relay.transform.simplify.inference import SimplifyInference
from byoc.relay.transform.simplify.remove_unused_functions import RemoveUnusedFunctions
from byoc.relay.transform.simplify.specialize_shapes import SpecializeShapes
from byoc.relay.transform.to_mixed_precision import ToMixedPrecision
from byoc.relay.transform.to_sparse import Conv2dToSparse, Conv2dToSparse2, DenseToSparse

__all__ = [
    "AlterOpLayout",
    "AnnotateSpans",
    "AnnotateTarget",
    "BackwardFoldScaleAxis",
    "CanonicalizeCast",
    "CanonicalizeOps",
    "CapturePostDfsIndexInSpans",
    "CarryViews",
    "ChannelsLast",
    "CollagePartition",
    "CombineParallelBatchMatmul",
    "CombineParallelConv2D",
    "CombineParallelDense",
    "CompositeRecord",
    "Conv2dToSparse",
    "Conv2dToSparse2",
    "ConvertLayout",
    "DeadCodeElimination",
    "Defunctionalization",
    "DefuseOps",
    "DenseToSparse",
    "DivToMul",
    "DynamicToStatic",
    "EliminateCommonSubexpr",
    "EtaExpand",
    "FailedCheck",
    "FakeQuantizationToInteger",
    "FastMath",
    "FirstOrderGradient",
    "FlattenAtrousConv",
    "FoldConstant",
    "FoldConstantExpr",
    "FoldExplicitPadding",
    "FoldScaleAxis",
    "ForwardFoldScaleAxis",
    "FunctionPass",
    "FuseOps",
    "GraphVisualize",
    "InferType",
    "Inline",
    "InlineCalls",
    "InlineCompilerFunctionsBoundTo",
    "InlineComposites",
    "JoinGroups",
    "LambdaLift",
    "LayoutConfig",
    "LazyGradientInit",
    "Legalize",
    "ManifestLifetimes",
    "MarkCompilerFunctionsAsExtern",
    "MergeCompilerRegions",
    "MergeComposite",
    "ModulePass",
    "OutlineCompilerFunctionsWithExistingGlobalSymbols",
    "PartialEvaluate",
    "PartitionGraph",
    "Pass",
    "PassContext",
    "PassInfo",
    "PassInstrument",
    "PassTimingInstrument",
    "PlanDevices",
    "RemoveDeviceAnnotations",
    "RemoveUnusedFunctions",
    "Sequential",
    "SimplifyExpr",
    "SimplifyExprPostAlterOp",
    "SimplifyFCTranspose",
    "SimplifyInference",
    "SpecializeShapes",
    "ToANormalForm",
    "ToANormalFormExpr",
    "ToBasicBlockNormalForm",
    "ToGraphNormalForm",
    "ToMixedPrecision",
    "function_pass",
    "fuse_function",
    "gradient",
    "module_pass",
    "recast",
    "register_config_option",
    "to_cps",
    "un_cps",
]

for _name in __all__:  # what a pass requires is found by its name, as in Relay
    register_func(f"relay._transform.{_name}", globals()[_name], override=True)
