"""Types and layouts under TVM's names: what scripts see, and what byoc.compile still refuses."""

import onnx
import pytest
from onnx import TensorProto, helper

import byoc
from byoc.runtime.core.errors import UserError


def test_a_layout_rule_of_a_user_is_asked_first_without_layouts(installed):
    import tvm
    from tvm import relay
    from tvm.relay.testing.temp_op_attr import TempOpAttr
    from tvm.relay.transform.infer_layout_utils import InferCorrectLayoutOutput

    asked = []

    def rule(attrs, new_in_layouts, old_in_layouts, old_in_types):
        asked.append(bool(new_in_layouts))
        layout = new_in_layouts[0] if new_in_layouts else old_in_layouts[0]
        return InferCorrectLayoutOutput([layout], [layout], attrs)

    x, w = relay.var("x", shape=(1, 8, 6, 6)), relay.var("w", shape=(8, 8, 3, 3))
    mod = tvm.IRModule.from_expr(relay.nn.softmax(relay.nn.conv2d(x, w), axis=0))
    convert = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})
    with TempOpAttr("nn.softmax", "FInferCorrectLayout", rule), tvm.transform.PassContext(opt_level=3):
        after = tvm.transform.Sequential([convert])(mod)
    assert asked == [False, True]
    assert after["main"].body.op.name == "layout_transform" and after["main"].body.args[0].op.name == "nn.softmax"
    assert not tvm.tir.layout("") and tvm.tir.layout("NCHW")


def test_symbolic_sizes_are_written_with_te_and_tir(installed):
    import tvm
    from tvm import relay, te

    n, h = te.size_var("n"), te.size_var("h")
    double = tvm.tir.const(2.0, "float64")
    call = relay.nn.upsampling(relay.var("x", relay.TensorType((n, 3, h, 8))), 2, 2, method="bilinear")
    found = relay.transform.InferType()(tvm.IRModule.from_expr(call))["main"].body.checked_type
    assert found == relay.TensorType((n, 3, tvm.tir.Cast("int32", te.round(h * double)), 16))
    halves = relay.split(relay.var("y", relay.TensorType((n, h))), 2, axis=1).astuple()
    found = relay.transform.InferType()(tvm.IRModule.from_expr(halves))["main"].body.checked_type
    assert found == relay.TupleType([relay.TensorType((n, tvm.tir.indexdiv(h, 2)))] * 2)


@pytest.mark.parametrize(
    "op, dtype", [("Log", TensorProto.INT32), ("Softmax", TensorProto.INT64), ("Neg", TensorProto.BOOL)]
)
def test_a_model_whose_element_types_its_operators_do_not_take_stays_refused(op, dtype):
    value = [helper.make_tensor_value_info(name, dtype, [2, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], name="odd")], "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    assert isinstance(model, onnx.ModelProto)
    with pytest.raises(UserError, match="odd") as refused:
        byoc.compile(model, ["c"])
    assert "\n" not in str(refused.value)
