"""Passes over modules, under the names that Relay's users know. Source: ``relay.transform``."""

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
from byoc.relay.transform.fold_constant import FoldConstant
from byoc.relay.transform.fuse_ops import DefuseOps, FuseOps, fuse_function
from byoc.relay.transform.infer_type import FunctionPass, InferType, function_pass
from byoc.relay.transform.annotate_target import AnnotateTarget
from byoc.relay.transform.merge_compiler_regions import MergeCompilerRegions
from byoc.relay.transform.merge_composite import CompositeRecord, FailedCheck, MergeComposite
from byoc.relay.transform.partition_graph import PartitionGraph

__all__ = [
    "AnnotateTarget", "CompositeRecord", "FailedCheck", "MergeCompilerRegions", "MergeComposite", "PartitionGraph",
    "DefuseOps", "FoldConstant", "FunctionPass", "FuseOps", "InferType", "ModulePass", "Pass", "PassContext",
    "PassInfo", "PassInstrument", "PassTimingInstrument", "Sequential", "function_pass", "fuse_function",
    "module_pass", "register_config_option",
]
