"""An integration as a GPU library's authors write it: a rewrite, predicates on types, small regions taken back."""

import tvm
from tvm import relay
from tvm.relay import transform
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, rewrite, wildcard
from tvm.relay.expr_functor import ExprMutator, ExprVisitor
from tvm.relay.op.contrib.register import register_pattern_table

UNARY = ["nn.relu", "sigmoid", "tanh", "exp", "sqrt"]
BINARY = ["add", "subtract", "multiply"]


def is_float(*exprs):
    return all(expr.checked_type.dtype in ("float32", "float16") for expr in exprs)


def register(name, predicate):
    tvm.ir.register_op_attr(name, "target.gpulib", lambda call: predicate(call.attrs, call.args))


for _name in UNARY:
    register(_name, lambda attrs, args: is_float(*args))
for _name in BINARY:
    register(_name, lambda attrs, args: is_float(*args) and args[0].checked_type.shape == args[1].checked_type.shape)
register("nn.softmax", lambda attrs, args: is_float(*args) and attrs.axis in (-1, len(args[0].checked_type.shape) - 1))
register("concatenate", lambda attrs, args: all(t.dtype == "float32" for t in args[0].checked_type.fields))


class SwishRewriter(DFPatternCallback):
    """x / (1 + exp(-x)) is sigmoid(x) * x, for which the library has a kernel."""

    def __init__(self):
        super().__init__(require_type=True)
        self.x = wildcard()
        self.pattern = is_op("divide")(self.x, is_op("add")(wildcard(), is_op("exp")(is_op("negative")(self.x))))

    def callback(self, pre, post, node_map):
        x = node_map[self.x][0]
        return relay.op.multiply(relay.op.sigmoid(x), x)


@register_pattern_table("gpulib")
def pattern_table():
    x = wildcard()
    return [("gpulib.swish", is_op("multiply")(is_op("sigmoid")(x), x))]


class OpCounter(ExprVisitor):
    def __init__(self):
        super().__init__()
        self.count = 0

    def visit_call(self, call):
        self.count += 1
        super().visit_call(call)


class InlineSmall(ExprMutator):
    """Puts regions of too few operators back into main."""

    def __init__(self, mod, least):
        super().__init__()
        self.mod, self.least, self.removed = mod, least, []

    def visit_call(self, call):
        if isinstance(call.op, relay.GlobalVar):
            func = self.mod[call.op.name_hint]
            counter = OpCounter()
            counter.visit(func.body)
            if "Compiler" in func.attrs and counter.count < self.least:
                self.removed.append(call.op.name_hint)
                args = [self.visit(arg) for arg in call.args]
                return relay.bind(func.body, dict(zip(func.params, args, strict=True)))
        return super().visit_call(call)


def prune(mod, least):
    pruner = InlineSmall(mod, least)
    main = pruner.visit(mod["main"])
    new = tvm.IRModule({gv: f for gv, f in mod.functions.items() if gv.name_hint not in (*pruner.removed, "main")})
    new["main"] = main
    return transform.InferType()(new)


def partition_for_gpulib(mod, params=None, target=None, least=1):
    target = target or tvm.target.Target.current(allow_none=True) or tvm.target.cuda()
    assert target.kind.name == "cuda"
    mod = transform.InferType()(mod)
    mod["main"] = rewrite(SwishRewriter(), mod["main"])
    with target, tvm.transform.PassContext(opt_level=3, config={"relay.FuseOps.max_depth": 8}):
        mod = tvm.transform.Sequential(
            [
                transform.InferType(),
                transform.MergeComposite(pattern_table()),
                transform.AnnotateTarget(["gpulib"]),
                transform.MergeCompilerRegions(),
                transform.PartitionGraph(bind_constants=False),
            ]
        )(mod)
    return prune(mod, least)


class Device(tvm.runtime.Module):
    """Stands for the device: the reference executor over the region's function."""

    type_key = "gpulib"

    def __init__(self, func):
        super().__init__()
        self.symbols = (str(func.attrs["global_symbol"]),)
        mod = tvm.IRModule.from_expr(relay.Function(func.params, func.body))
        self.evaluate = relay.create_executor("debug", mod=mod, device=tvm.cpu(0), target="llvm").evaluate()

    def get_function(self, name, query_imports=False):
        def run(*arrays):
            count = len(arrays) - self.outputs
            result = self.evaluate(*arrays[:count])
            for out, value in zip(arrays[count:], result if self.outputs > 1 else [result], strict=True):
                out.copyfrom(value)

        return run if name in self.symbols else None


@tvm.register_func("relay.ext.gpulib")
def gpulib_compiler(func):
    module = Device(func)
    ret = func.checked_type.ret_type
    module.outputs = len(ret.fields) if isinstance(ret, relay.TupleType) else 1
    return module
