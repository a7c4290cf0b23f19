"""An integration of TensorRT in the style of TVM's: composites by operator, checks by version, pruning."""

import tvm
from tvm import relay
from tvm.relay import transform
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.expr_functor import ExprMutator, ExprVisitor
from tvm.relay.op.contrib.register import register_pattern_table


def is_tensorrt_compiler_enabled():
    return tvm.get_global_func("relay.ext.tensorrt.is_runtime_enabled", True) is not None


def is_tensorrt_runtime_enabled():
    ask = tvm.get_global_func("relay.ext.tensorrt.is_runtime_enabled", True)
    return bool(ask()) if ask is not None else False


def get_tensorrt_target():
    target = tvm.target.Target.current()
    return target if target is not None and target.kind.name == "tensorrt" else tvm.target.Target("tensorrt")


def get_tensorrt_version():
    version = get_tensorrt_target().attrs["tensorrt_version"]
    if len(version) == 3:
        return tuple(int(v) for v in version)
    if is_tensorrt_runtime_enabled():
        return tuple(tvm.get_global_func("relay.ext.tensorrt.get_version")())
    return (6, 0, 1)


def supported_float(expr):
    types = [arg.checked_type for arg in expr.args]
    return all(ty.dtype in ("float32", "float16") for ty in types if isinstance(ty, relay.TensorType))


def batch_is_kept(expr):
    """Implicit batches: the first axis of the first input is the only one that may be unknown."""
    shape = expr.args[0].checked_type.shape
    if any(isinstance(d, tvm.tir.Any) for d in shape[1:]):
        return False
    return not get_tensorrt_target().attrs["use_implicit_batch"] or len(shape) > 1


def conv(expr):
    attrs = expr.attrs
    layouts = (attrs.data_layout, attrs.kernel_layout)
    return layouts == ("NCHW", "OIHW") and attrs.out_dtype in ("", "float32", "float16")


def pool(expr):
    return expr.attrs.layout == "NCHW" and (not expr.attrs.ceil_mode or get_tensorrt_version() >= (5, 1, 5))


def keeps_batch_axis(expr):
    return 0 not in [axis % len(expr.args[0].checked_type.shape) for axis in (expr.attrs.axis or [0])]


CHECKS = {
    "nn.conv2d": conv,
    "nn.max_pool2d": pool,
    "nn.avg_pool2d": pool,
    "nn.global_avg_pool2d": lambda e: e.attrs.layout == "NCHW",
    "mean": keeps_batch_axis,
    **dict.fromkeys(
        (
            "nn.relu",
            "sigmoid",
            "tanh",
            "add",
            "multiply",
            "subtract",
            "nn.dense",
            "nn.bias_add",
            "nn.softmax",
            "nn.batch_flatten",
            "clip",
            "exp",
            "reshape",
        ),
        lambda e: True,
    ),
}


def check(name):
    def checked(expr):
        return supported_float(expr) and batch_is_kept(expr) and CHECKS[name](expr)

    return checked


@register_pattern_table("tensorrt")
def pattern_table():
    def operands(name):
        count = 2 if name in ("nn.conv2d", "add", "multiply", "subtract", "nn.dense", "nn.bias_add") else 1
        return [wildcard() for _ in range(count)]

    return [(f"tensorrt.{name}", is_op(name)(*operands(name)), check(name)) for name in CHECKS]


class MacCounter(ExprVisitor):
    def __init__(self):
        super().__init__()
        self.found = False

    def visit_call(self, call):
        if isinstance(call.op, tvm.ir.Op):
            self.found |= call.op.name in ("nn.conv2d", "nn.dense")
        super().visit_call(call)


class Remover(ExprMutator):
    def __init__(self, mod, names):
        super().__init__()
        self.mod, self.names = mod, names

    def visit_call(self, call):
        if isinstance(call.op, relay.GlobalVar) and call.op.name_hint in self.names:
            func = self.mod[call.op.name_hint]
            return relay.bind(func.body, dict(zip(func.params, [self.visit(a) for a in call.args], strict=True)))
        return super().visit_call(call)


def prune_tensorrt_subgraphs(mod):
    small = []
    for var in mod.get_global_vars():
        func = mod[var]
        if func.attrs and "Compiler" in func.attrs and func.attrs["Compiler"] == "tensorrt":
            counter = MacCounter()
            counter.visit(func.body)
            if get_tensorrt_target().attrs["remove_no_mac_subgraphs"] and not counter.found:
                small.append(var.name_hint)
    new = tvm.IRModule({v: f for v, f in mod.functions.items() if v.name_hint not in (*small, "main")})
    new["main"] = Remover(mod, small).visit(mod["main"])
    return transform.InferType()(new)


def partition_for_tensorrt(mod, params=None, target=None):
    assert is_tensorrt_compiler_enabled(), "Can only partition for TensorRT if it is enabled"
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    if target is None:
        target = get_tensorrt_target()
    seq = tvm.transform.Sequential(
        [
            transform.InferType(),
            transform.RemoveUnusedFunctions(),
            transform.ConvertLayout({"nn.conv2d": ["NCHW", "default"]}),
            transform.FoldConstant(),
            transform.MergeComposite(pattern_table()),
            transform.AnnotateTarget("tensorrt"),
            transform.MergeCompilerRegions(),
            transform.PartitionGraph(),
            transform.InferType(),
        ]
    )
    with target:
        return prune_tensorrt_subgraphs(seq(mod))
