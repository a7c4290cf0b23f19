"""Where each module of TVM's Python package lives here: data, read by the finder.

A name under one of ``ROOTS`` is the module of that name in our package where we have one; ``ALIASES`` names the rest of
ours whose name differs; what has no home of ours stands under ``byoc.compat.tvm_modules``, at TVM's own path.
``ADDED_NAMES`` are put on our modules while the compatibility is installed, unless we have such a name already.
Source: the layout of Apache TVM v0.18.
"""

from __future__ import annotations

THIN = "byoc.compat.tvm_modules"

# TVM's package -> ours, child by child
ROOTS = {"tvm.relay": "byoc.relay", "tvm.ir": "byoc.ir", "tvm.runtime": "byoc.runtime"}

ALIASES = {
    "tvm": f"{THIN}.root",
    "tvm.transform": "byoc.ir.passes.transform",
    "tvm.instrument": "byoc.ir.passes.instrument",
    "tvm.ir.attrs": "byoc.ir.attrs",
    "tvm.ir.base": "byoc.ir",
    "tvm.ir.function": "byoc.ir.expr",
    "tvm.ir.tensor_type": "byoc.ir.types",
    "tvm.ir.type": "byoc.ir.types",
    "tvm.nd": "byoc.runtime.core.ndarray",
    "tvm.runtime.device": "byoc.runtime.device",
    "tvm.runtime.name_transforms": f"{THIN}.relay.backend.name_transforms",
    "tvm.contrib.utils": f"{THIN}.contrib.temporary",
    "tvm.contrib.graph_runtime": f"{THIN}.contrib.graph_executor",
    "tvm._ffi": f"{THIN}.ffi",
    "tvm._ffi.base": f"{THIN}.ffi",
    "tvm._ffi.registry": f"{THIN}.ffi",
    "tvm.tir.expr": f"{THIN}.tir",
    "tvm.tir.op": f"{THIN}.tir",
    "tvm.topi.utils": f"{THIN}.topi.constant_values",
    "tvm.topi.testing": "byoc.annex.testing.references",
    "tvm.topi.testing.resize_python": "byoc.annex.testing.references.resize_python",
    "tvm.target.codegen": f"{THIN}.target_codegen",
    "tvm.target.target": f"{THIN}.target",
    "tvm.target.compilation_config": "byoc.annex.devices.compilation_config",
    "tvm.target.virtual_device": "byoc.ir.virtual_device",
    "tvm.relay.collage.collage": "byoc.annex.collage",
    "tvm.testing.plugin": f"{THIN}.testing_plugin",
    "tvm.testing.utils": f"{THIN}.testing",
    "tvm.script.ir_builder": f"{THIN}.script",
    "tvm.script.ir_builder.tir": f"{THIN}.script.tir",
    "tvm.script.ir_builder.tir.ir": f"{THIN}.script.tir",
    "tvm.relay.expr_functor": "byoc.relay.functor",
    "tvm.relay.function": "byoc.relay.expr",
    "tvm.relay.ty": "byoc.ir.types",
    "tvm.relay.parser": "byoc.relay.text",
    "tvm.parser": "byoc.relay.text",
    "tvm.relay.op.tensor": "byoc.relay.op",
    "tvm.relay.op.transform": "byoc.relay.op",
    "tvm.relay.op.contrib.te_target": f"{THIN}.relay.te_target",
    "tvm.relay.op._make": f"{THIN}.relay.op_make",
    "tvm.relay.op.op_attrs": f"{THIN}.relay.op_attrs",
    "tvm.relay.op.strategy": f"{THIN}.relay.strategy",
    "tvm.relay.op.strategy.generic": f"{THIN}.relay.strategy.generic",
    "tvm.relay.op.nn.utils": f"{THIN}.relay.pad_tuple",
    "tvm.relay.op.nn.nn": "byoc.relay.op.nn",
    "tvm.relay.op.nn._make": "byoc.relay.op.nn",
    "tvm.relay.op.image.image": "byoc.relay.op.image",
    "tvm.relay.qnn.op._make": "byoc.relay.qnn.op.qnn",
    "tvm.topi.nn.qnn": "byoc.relay.qnn.op.quantize",
    "tvm.relay.nn": "byoc.relay.op.nn",
    "tvm.relay.image": "byoc.relay.op.image",
    "tvm.relay.random": "byoc.relay.op.random",
    "tvm.relay.vision": "byoc.relay.op.vision",
    "tvm.relay.op.vision.nms": "byoc.relay.op.vision",
    "tvm.relay.op.random.kernel": "byoc.relay.op.random",
    "tvm.relay.annotation": "byoc.relay.op.annotation",
    "tvm.relay.op.annotation.annotation": "byoc.relay.op.annotation",
    "tvm.relay.transform.transform": "byoc.relay.transform",
    "tvm.relay.analysis.analysis": "byoc.relay.analysis",
    "tvm.relay.analysis.feature": "byoc.annex.analysis.features",
    "tvm.relay.transform._ffi_api": f"{THIN}.relay.transform_api",
    "tvm.runtime._ffi_api": f"{THIN}.runtime.runtime_api",
    "tvm.relay.analysis._ffi_api": f"{THIN}.relay.analysis_api",
    "tvm.relay.param_dict": "byoc.runtime.params",
    "tvm.relay.backend.utils": f"{THIN}.relay.backend.name_transforms",
    "tvm.relay.backend.vm": f"{THIN}.relay.vm",
    "tvm.relay.backend.executor": f"{THIN}.relay.backend",
    "tvm.relay.backend.runtime": f"{THIN}.relay.backend",
    "tvm.relay.backend.aot": f"{THIN}.relay.build_module",
    "tvm.relay.backend.graph_executor_factory": f"{THIN}.relay.backend.executor_factory",
}

# modules whose package gives their name to a function: they are known from the start, for importing one would take the
# function's place
SHADOWED = {
    "tvm.relay.analysis.count_layers": "byoc.annex.analysis.op_counts",
    "tvm.relay.transform.recast": "byoc.annex.recast",
}

# TVM's own integrations, whose names are here and whose files are mounted by who uses them
VENDORS = ("arm_compute_lib", "clml", "coreml", "cutlass", "ethosn", "libtorch", "mrvl", "tensorrt")
# those that TVM's package does not re-export
OTHER_VENDORS = ("cmsisnn", "cublas", "cudnn", "ethosu", "uma")
ALIASES.update({f"tvm.relay.op.contrib.{vendor}": f"{THIN}.relay.vendors" for vendor in (*VENDORS, *OTHER_VENDORS)})
# modules of ours that a mounted folder does not replace
OURS_FIRST = ("tvm.relay.op.contrib.register",)

# what Relay had below the graph, or beside it: importing works, using raises (see byoc.compat.tvm.below)
BELOW = (
    "tvm.arith",
    "tvm.auto_scheduler",
    "tvm.autotvm",
    "tvm.contrib",
    "tvm.dlight",
    "tvm.driver",
    "tvm.exec",
    "tvm.meta_schedule",
    "tvm.relax",
    "tvm.relay.backend.contrib",
    "tvm.relay.op.strategy",
    "tvm.relay.quantize",
    "tvm.rpc",
    "tvm.script",
    "tvm.target",
    "tvm.te",
    "tvm.tir",
    "tvm.topi",
)

# global function of TVM's -> where it is; loaded when it is first called
ADDED_FUNCTIONS = {
    "relay.ext.ccompiler": f"{THIN}.ccompiler:compile_region",
    "runtime.CSourceModuleCreate": f"{THIN}.csource:create",
    "relay.ext.dnnl": "byoc.contrib.onednn.relay.region:compile_region",
    **{
        f"relay.ext.cmsisnn.transform.{name}": f"{THIN}.relay.vendor_passes:no_change"
        for name in (
            "CMSISNNFusePads",
            "ExtractConstantsFromPartitionedFunction",
            "GenerateCMSISNNConstants",
            "ScalarToTensorConstants",
        )
    },
    **{
        f"relay._ffi_api.get_optimal_layout_for_{kind}": "byoc.contrib.onednn.relay.layouts:plain_layouts"
        for kind in ("conv", "conv_transpose")
    },
    "tvm.relay.collage.estimate_seconds": "byoc.annex.collage.estimate_seconds:estimate_seconds",
}

# module of ours -> TVM's name -> where it is
ADDED_NAMES: dict[str, dict[str, str]] = {
    "byoc.ir": {
        **{
            name: f"byoc.relay.structure.structural:{name}"
            for name in ("assert_structural_equal", "structural_equal", "structural_hash")
        },
        **{
            name: f"byoc.ir.types:{name}"
            for name in (
                "GlobalTypeVar",
                "IncompleteType",
                "TypeCall",
                "TypeConstraint",
                "TypeKind",
                "TypeRelation",
                "TypeVar",
            )
        },
        "AttrFieldInfo": "byoc.ir.attrs:AttrFieldInfo",
        "Constructor": "byoc.ir.expr:Constructor",
        "TypeData": "byoc.ir.expr:TypeData",
        "Node": f"{THIN}.runtime:Object",
        "PrimExpr": f"{THIN}.tir:PrimExpr",
        "Array": f"{THIN}.ir.container:Array",
        "Map": f"{THIN}.ir.container:Map",
        "EnvFunc": f"{THIN}.ir:EnvFunc",
        "make_node": f"{THIN}.ir:make_node",
        "load_json": f"{THIN}.ir:load_json",
        "save_json": f"{THIN}.ir:save_json",
        "container": f"{THIN}.ir.container:",
        "supply": f"{THIN}.ir.supply:",
        "diagnostics": "byoc.ir.diagnostics:",
        "instrument": "byoc.ir.passes.instrument:",
    },
    f"{THIN}.relay.backend": {
        name: f"{THIN}.relay.backend.{name}:" for name in ("executor_factory", "interpreter", "te_compiler")
    },
    "byoc.ir.passes.transform": {"function_pass": "byoc.relay.transform:function_pass"},
    "byoc.ir.types": {"scalar_type": "byoc.relay:scalar_type", "TypeRelation": "byoc.ir.op:TypeRelation"},
    "byoc.runtime": {
        "_ffi_api": f"{THIN}.runtime.runtime_api:",
        **{name: f"byoc.runtime.{name}:" for name in ("container", "module", "ndarray", "params", "vm")},
        "ADT": "byoc.runtime.core.container:ADT",
        "ShapeTuple": "byoc.runtime.core.container:ShapeTuple",
        "String": "byoc.runtime.core.container:String",
        "convert": f"{THIN}.runtime:convert",
        "const": f"{THIN}.runtime:const",
        "enabled": f"{THIN}.runtime:enabled",
        "load_module": f"{THIN}.runtime:load_module",
        "DataType": f"{THIN}.runtime.data_type:DataType",
        "Object": f"{THIN}.runtime:Object",
        "PackedFunc": f"{THIN}.ffi:PackedFunc",
        "load_param_dict": "byoc.runtime.params:load_param_dict",
        "save_param_dict": "byoc.runtime.params:save_param_dict",
        "load_param_dict_from_file": "byoc.runtime.params:load_param_dict_from_file",
        "save_param_dict_to_file": "byoc.runtime.params:save_param_dict_to_file",
        "name_transforms": f"{THIN}.relay.backend.name_transforms:",
    },
    "byoc.runtime.modules.module": {
        "BenchmarkResult": "byoc.runtime.core.benchmark:BenchmarkResult",
        "enabled": f"{THIN}.runtime:enabled",
        "load_module": f"{THIN}.runtime:load_module",
    },
    "byoc.runtime.core.ndarray": {
        name: f"{THIN}.devices:{name}"
        for name in ("cpu", "cuda", "device", "ext_dev", "gpu", "metal", "opencl", "vulkan")
    },
    "byoc.relay": {
        "build": f"{THIN}.relay.build_module:build",
        "build_config": f"{THIN}.relay.build_module:build_config",
        "build_module": f"{THIN}.relay.build_module:",
        "create_executor": f"{THIN}.relay.build_module:create_executor",
        "optimize": f"{THIN}.relay.build_module:optimize",
        "load_param_dict": "byoc.runtime.params:load_param_dict",
        "save_param_dict": "byoc.runtime.params:save_param_dict",
        "backend": f"{THIN}.relay.backend:",
        "vm": f"{THIN}.relay.vm:",
        "_ffi_api": f"{THIN}.relay._ffi_api:",
        "param_dict": "byoc.runtime.params:",
        "expr": "byoc.relay.expr:",
        "expr_functor": "byoc.relay.functor:",
        "function": "byoc.relay.expr:",
        "ty": "byoc.ir.types:",
        "Id": "byoc.relay.expr:VarId",
        "FunctionWithFields": f"{THIN}.relay.with_fields:FunctionWithFields",
        "SpanCheck": "byoc.relay.transform.base.span_check:SpanCheck",
        "base": f"{THIN}.relay.base:",
    },
    "byoc.relay.op.nn": {"Constant": "byoc.relay.expr:Constant"},
    "byoc.annex.testing": {"enabled_targets": f"{THIN}.testing.enabled:enabled_targets"},
    "byoc.relay.expr": {
        "bind": "byoc.relay.bind:bind",
        "Id": "byoc.relay.expr:VarId",
        "FunctionWithFields": f"{THIN}.relay.with_fields:FunctionWithFields",
        "TupleWrapper": "byoc.relay.tuple_wrapper:TupleWrapper",
    },
    "byoc.relay.analysis": {"_ffi_api": f"{THIN}.relay.analysis_api:", "feature": "byoc.annex.analysis.features:"},
    "byoc.relay.transform": {
        "build_config": f"{THIN}.relay.build_module:build_config",
        "InferTypeLocal": f"{THIN}.relay.build_module:InferTypeLocal",
    },
    "byoc.relay.op": {
        "Op": "byoc.ir.op:Op",
        "annotation": "byoc.relay.op.annotation:",
        "contrib": "byoc.relay.op.contrib:",
        "op_attrs": f"{THIN}.relay.op_attrs:",
        "strategy": f"{THIN}.relay.strategy:",
        "transform": "byoc.relay.op:",
        "tensor": "byoc.relay.op:",
        "_make": f"{THIN}.relay.op_make:",
    },
    "byoc.relay.op.contrib": {
        "register": "byoc.relay.op.contrib.register:",
        "__getattr__": f"{THIN}.relay.contrib_names:__getattr__",
    },
}
