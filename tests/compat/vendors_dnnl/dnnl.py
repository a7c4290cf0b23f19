"""An integration of oneDNN as its authors write it, with a table, layouts in the library's letters and rewrites."""

import logging

import tvm.ir
from tvm import relay
from tvm.relay import transform
from tvm.relay.analysis import analysis as _analysis
from tvm.relay.expr import Call, GlobalVar, TupleGetItem, const
from tvm.relay.expr_functor import ExprMutator, ExprVisitor

from ... import _ffi_api
from ...dataflow_pattern import DFPatternCallback, is_constant, is_expr, is_op, rewrite, wildcard
from .register import register_pattern_table

logger = logging.getLogger("DNNL")
supported_post_elts = ["nn.relu", "tanh", None]


def _register_external_op_helper(op_name, supported=True):
    @tvm.ir.register_op_attr(op_name, "target.dnnl")
    def _func_wrapper(expr):
        if any(x.checked_type.dtype == "int64" for x in expr.args):
            logger.info("DNNL does not support int64.")
            return False
        return supported

    return _func_wrapper


for _name in ("nn.conv2d", "nn.conv2d_transpose", "nn.relu", "add", "nn.dense"):
    _register_external_op_helper(_name)


def make_conv_pattern(with_bias, with_eltwise):
    pattern = is_op("nn.conv2d")(wildcard(), wildcard())
    if with_bias:
        pattern = is_op("add")(pattern, wildcard())
    return is_op(with_eltwise)(pattern) if with_eltwise else pattern


def make_qnn_conv2d_pattern():
    zero_zp = is_expr(const(0, dtype="int32"))
    pat = is_op("qnn.conv2d")(wildcard(), is_constant(), zero_zp, zero_zp, is_constant(), is_constant())
    pat = is_op("cast")(pat)
    pat = is_op("add")(pat, is_constant()) | pat
    pat = is_op("multiply")(pat, is_constant())
    pat = is_op("clip")(pat)
    pat = is_op("multiply")(pat, is_constant()) | pat
    pat = is_op("add")(pat, is_constant() * is_op("cast")(wildcard())) | pat
    pat = is_op("add")(pat, is_constant()) | pat
    return "dnnl.qnn.conv2d", is_op("cast")(pat)


@register_pattern_table("dnnl")
def pattern_table():
    rows = [make_qnn_conv2d_pattern()]
    for with_bias in (True, False):
        for elt in supported_post_elts:
            if with_bias or elt:
                name = "dnnl.conv2d" + "_bias" * with_bias + (f"_{elt.split('.')[-1]}" if elt else "")
                rows.append((name, make_conv_pattern(with_bias, elt)))
    return rows


def get_shape(tensor):
    if isinstance(tensor, relay.Constant):
        return tensor.data.shape
    if isinstance(tensor, tvm.ir.tensor_type.TensorType):
        return tensor.concrete_shape
    return tensor.checked_type.shape if isinstance(tensor, relay.Var) else transform.InferTypeLocal(tensor).shape


def tag2layout(input_data, is_weight=False, conv_type="Conv2D"):
    dic = {"a": "O", "b": "I", "c": "H", "d": "W"} if is_weight else {"a": "N", "b": "C", "c": "H", "d": "W"}
    if is_weight and "e" in input_data:
        dic = {"a": "G", "b": "O", "c": "I", "d": "H", "e": "W"}
    return "".join(dic[letter] for letter in input_data)


def legalize_group_conv(attrs, inputs, types):
    groups = attrs.groups
    data, weight = inputs
    build = relay.nn.conv2d_transpose if "Transpose" in type(attrs).__name__ else relay.nn.conv2d
    if groups == 1:
        return build(data, weight, **attrs)
    out, *rest = get_shape(weight)
    new_attrs = dict(attrs)
    new_attrs["kernel_layout"] = "GIOHW" if build is relay.nn.conv2d_transpose else "GOIHW"
    return build(data, relay.reshape(weight, (groups, out // groups, *rest)), **new_attrs)


def alter_conv(attrs, inputs, tinfos, out_type):
    def joined(numbers):
        return ",".join(str(x) for x in numbers)

    data, weight = inputs
    new_attrs = dict(attrs)
    res = _ffi_api.get_optimal_layout_for_conv(
        attrs["data_layout"],
        attrs["kernel_layout"],
        joined(get_shape(weight)),
        joined(get_shape(out_type)),
        joined(attrs.get_int_tuple("padding")),
        joined(attrs.get_int_tuple("strides")),
        joined(attrs.get_int_tuple("dilation")),
        str(attrs.groups),
        transform.InferTypeLocal(weight).dtype,
    )
    src_df, weight_df, dst_df = res.split(",")
    new_attrs["data_layout"] = tag2layout(src_df)
    new_attrs["kernel_layout"] = tag2layout(weight_df, is_weight=True)
    new_attrs["out_layout"] = tag2layout(dst_df)
    return relay.nn.conv2d(data, weight, **new_attrs)


class IsComputeIntensiveGraph(ExprVisitor):
    def __init__(self):
        ExprVisitor.__init__(self)
        self.is_compute_intensive = False

    def visit_call(self, call):
        if isinstance(call.op, tvm.tir.op.Op) and str(call.op.name) in ("nn.conv2d", "nn.dense"):
            self.is_compute_intensive = True
        return super().visit_call(call)


class SubgraphRemover(ExprMutator):
    def __init__(self, names, mod):
        ExprMutator.__init__(self)
        self.names, self.mod = names, mod

    def visit_call(self, call):
        if isinstance(call.op, GlobalVar) and call.op.name_hint in self.names:
            func = self.mod[call.op.name_hint]
            args = [super(SubgraphRemover, self).visit(arg) for arg in call.args]
            return relay.bind(func.body, dict(zip(func.params, args, strict=True)))
        return super().visit_call(call)


def prune_dnnl_subgraphs(mod):
    if len(mod.get_global_vars()) <= 2:
        return mod
    small = []
    for var in mod.get_global_vars():
        if not mod[var.name_hint].attrs or mod[var.name_hint].attrs["Compiler"] != "dnnl":
            continue
        visitor = IsComputeIntensiveGraph()
        visitor.visit(mod[var.name_hint].body)
        if not visitor.is_compute_intensive:
            small.append(var.name_hint)
    new_mod = tvm.IRModule(mod.functions, mod.type_definitions)
    new_mod["main"] = SubgraphRemover(small, mod).visit(mod["main"])
    return transform.RemoveUnusedFunctions()(new_mod)


class LegalizeQnn(DFPatternCallback):
    """A quantized convolution, perhaps with a bias, and its requantization in the library's sequence."""

    def __init__(self):
        super().__init__()
        self.src, self.wgh, self.bias = wildcard(), wildcard(), wildcard()
        self.scl, self.zp = [is_constant() for _ in range(4)], is_expr(const(0))
        self.root = is_op("qnn.conv2d")(self.src, self.wgh, self.zp, wildcard(), is_constant(), is_constant())
        pat = is_op("add")(self.root, self.bias) | self.root
        self.pattern = is_op("qnn.requantize")(pat, *self.scl)

    def callback(self, pre, post, node_map):
        root = node_map[self.root][0]
        bias = node_map.get(self.bias, default=[relay.const(0, dtype="int32")])[0]
        zero = relay.const(0)
        scale = relay.divide(node_map[self.scl[0]][0], node_map[self.scl[2]][0])
        conv = Call(root.op, [root.args[0], root.args[1], zero, zero, *root.args[4:]], root.attrs)
        graph = relay.multiply(relay.add(relay.cast(conv, "float32"), relay.cast(bias, "float32")), scale)
        graph = relay.cast(relay.clip(graph, a_min=0.0, a_max=255.0), "uint8")
        return graph


def legalize_qnn_for_dnnl(mod):
    mod["main"] = rewrite(LegalizeQnn(), mod["main"])
    return tvm.transform.Sequential([transform.InferType(), transform.FoldConstant()])(mod)


assert TupleGetItem is not None and _analysis is not None
