"""An integration as the authors of an NHWC library for small cores write it: layouts, legalisation, checks, pruning."""

import tvm
from tvm import relay
from tvm._ffi import register_func
from tvm.ir import Op
from tvm.relay import transform
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.expr import Call, Constant, GlobalVar, TupleGetItem, Var
from tvm.relay.expr_functor import ExprMutator, ExprVisitor
from tvm.relay.op.contrib.register import get_pattern_table
from tvm.topi.utils import get_const_tuple

from ...dataflow_pattern import DFPatternCallback, is_constant, is_op, is_tuple_get_item, rewrite, wildcard
from ..strategy.generic import is_depthwise_conv2d
from .register import register_pattern_table

NAME = "nhwclib"


def is_library_enabled():
    check = tvm.get_global_func("relay.op.is_nhwclib_runtime_enabled", True)
    return check() if check else False


class OptionsConfig:
    def __init__(self, options=None):
        self.options = {"max_channels": 64, "weights": "HWIO", **(options or {})}

    def __getitem__(self, key):
        return self.options[key]


class DepthwiseMultiply(DFPatternCallback):
    """A product with a constant for each channel is a depthwise convolution of size 1."""

    def __init__(self):
        super().__init__(require_type=True)
        self.data, self.factor = wildcard(), is_constant()
        self.pattern = is_op("multiply")(self.data, self.factor)

    def callback(self, pre: tvm.relay.Expr, post: tvm.relay.Expr, node_map: tvm.ir.container.Map) -> tvm.relay.Expr:
        data, factor = node_map[self.data][0], node_map[self.factor][0]
        shape = get_const_tuple(data.checked_type.shape)
        if len(shape) != 4 or get_const_tuple(factor.checked_type.shape) != (shape[3],):
            return post
        kernel = relay.const(factor.data.numpy().reshape(1, 1, shape[3], 1))
        return relay.nn.conv2d(
            data,
            kernel,
            kernel_size=(1, 1),
            channels=shape[3],
            groups=shape[3],
            data_layout="NHWC",
            kernel_layout="HWOI",
        )


@tvm.ir.transform.module_pass(opt_level=1)
class LegalizeNhwclib:
    """The rewrites of the library, as a pass."""

    def transform_module(self, mod: tvm.ir.IRModule, ctx: tvm.ir.transform.PassContext) -> tvm.ir.IRModule:
        for global_var, func in mod.functions.items():
            mod.update_func(global_var, rewrite(DepthwiseMultiply(), func))
        return mod


@relay.transform.function_pass(opt_level=0)
class DropDropout:
    """Dropout does nothing where nothing is learned."""

    def transform_function(self, func, mod, ctx):
        class Mutator(ExprMutator):
            def visit_tuple_getitem(self, op):
                visited = super().visit_tuple_getitem(op)
                value = visited.tuple_value
                if isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "nn.dropout":
                    return value.args[0]
                return visited

        return Mutator().visit(func)


def conv_pattern():
    pattern = is_op("nn.pad")(wildcard(), wildcard()) | wildcard()
    pattern = is_op("nn.conv2d")(pattern, is_constant())
    pattern = pattern.optional(lambda x: is_op("nn.bias_add")(x, is_constant()) | is_op("add")(x, is_constant()))
    return pattern.optional(is_op("nn.relu"))


def batch_norm_pattern():
    stats = [is_constant() for _ in range(4)]
    return is_tuple_get_item(is_op("nn.batch_norm")(wildcard(), *stats), 0)


def find(call, name):
    while not (isinstance(call.op, Op) and call.op.name == name):
        call = call.args[0]
    return call


def check_conv(extract, config):
    conv = find(extract, "nn.conv2d")
    attrs, data, kernel = conv.attrs, conv.args[0].checked_type, conv.args[1].checked_type
    if attrs.out_dtype != "float32" and attrs.out_dtype != "":
        return False
    if attrs.data_layout != "NHWC" or data.dtype != "float32" or len(data.shape) != 4:
        return False
    batch = data.shape[0]
    if isinstance(batch, tvm.tir.expr.Any) or batch.value != 1:
        return False
    depthwise = is_depthwise_conv2d(
        data.shape, attrs["data_layout"], kernel.shape, attrs["kernel_layout"], attrs["groups"]
    )
    if attrs.groups != 1 and not depthwise:
        return False
    if any(step.value > 2 for step in attrs.strides) or int(conv.checked_type.shape[3]) > config["max_channels"]:
        return False
    return attrs.get_int_tuple("dilation") == (1, 1) and attrs.get_str("data_layout") == "NHWC"


@register_pattern_table(NAME)
def nhwclib_pattern_table(options=None):
    config = OptionsConfig(options)
    return [
        (f"{NAME}.conv2d", conv_pattern(), lambda extract: check_conv(extract, config)),
        (f"{NAME}.batch_norm", batch_norm_pattern()),
    ]


def _register(op_name, supported=lambda attrs, args: True):
    @tvm.ir.register_op_attr(op_name, f"target.{NAME}")
    def _func_wrapper(expr):
        attrs, args = expr.attrs, expr.args
        if any(getattr(a.checked_type, "dtype", "") != "float32" for a in args):
            return False
        return supported(attrs, args)

    return _func_wrapper


_register("reshape")
_register("nn.max_pool2d", lambda attrs, args: attrs.layout == "NHWC" and not attrs.ceil_mode)
_register("nn.global_avg_pool2d", lambda attrs, args: attrs.layout == "NHWC")
_register("nn.dense", lambda attrs, args: isinstance(args[1], Constant) and attrs.out_dtype in ("", "float32"))


class IsComputeIntensive(ExprVisitor):
    def __init__(self):
        super().__init__()
        self.found = False

    def visit_call(self, call):
        if isinstance(call.op, tvm.tir.op.Op) and str(call.op.name) in {"nn.conv2d", "nn.dense"}:
            self.found = True
        super().visit_call(call)

    def of(self, subgraph):
        self.visit(subgraph)
        return self.found


class SubgraphRemover(ExprMutator):
    """Calls of the regions in *removed* become their bodies; calls of others are of the new module's names."""

    def __init__(self, removed, mod, new_mod):
        super().__init__()
        self.removed, self.mod, self.new_mod = removed, mod, new_mod

    def visit_call(self, call):
        if not isinstance(call.op, GlobalVar):
            return super().visit_call(call)
        name = call.op.name_hint
        if name not in self.removed:
            return self.new_mod.get_global_var(name)(*[super(SubgraphRemover, self).visit(arg) for arg in call.args])
        func = self.mod[name]
        names = {
            var.name_hint: super(SubgraphRemover, self).visit(arg)
            for var, arg in zip(func.params, call.args, strict=True)
        }

        class Replace(ExprMutator):
            def visit_var(self, var):
                return names.get(var.name_hint, var)

            def visit_call(self, call):
                if isinstance(call.op, relay.Function):  # a composite
                    inner = relay.bind(call.op.body, dict(zip(call.op.params, map(self.visit, call.args), strict=True)))
                    return inner
                return super().visit_call(call)

        return Replace().visit(func.body)


def prune(mod):
    removed = [
        gv.name_hint
        for gv in mod.get_global_vars()
        if "Compiler" in (mod[gv].attrs or {})
        and mod[gv].attrs["Compiler"] == NAME
        and not IsComputeIntensive().of(mod[gv].body)
    ]
    new_mod = tvm.IRModule(mod.functions, mod.type_definitions)
    new_mod["main"] = SubgraphRemover(removed, mod, new_mod).visit(mod["main"])
    return transform.RemoveUnusedFunctions()(new_mod)


def partition_for_nhwclib(mod, params=None, mod_name="default", **opts):
    """Cut *mod* for the library. Layouts are converted to NHWC first."""
    config = OptionsConfig(opts)
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    desired = {"nn.conv2d": ["NHWC", config["weights"]], "nn.max_pool2d": ["NHWC"], "nn.global_avg_pool2d": ["NHWC"]}
    seq = tvm.transform.Sequential(
        [
            transform.InferType(),
            DropDropout(),
            transform.RemoveUnusedFunctions(),
            transform.ConvertLayout(desired),
            transform.FoldConstant(),
            transform.InferType(),
            transform.MergeComposite(nhwclib_pattern_table(opts)),
            transform.AnnotateTarget(NAME, include_non_call_ops=False),
            transform.MergeCompilerRegions(),
            transform.PartitionGraph(mod_name),
        ]
    )
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["AlterOpLayout"]):
        return prune(seq(mod))


@register_func(f"relay.ext.{NAME}.constant_updater")
def constant_updater(expr, symbol):
    """The library keeps its constants itself."""
    return {}


def composite_calls(func):
    found = []

    def visit(node):
        if isinstance(node, Call) and isinstance(node.op, relay.Function):
            found.append(node.op.attrs["PartitionedFromPattern"])
        assert not isinstance(node, TupleGetItem) or not isinstance(node.tuple_value, Var)

    relay.analysis.post_order_visit(func, visit)
    return found


assert get_pattern_table(NAME) is not None
