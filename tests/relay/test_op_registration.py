"""Operators that a user registers by Relay's calls, and what passes learn of operators."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from byoc import relay
from byoc.errors import KernelError, RegistryError
from byoc.ir.attrs import DictAttrs
from byoc.ir.op import OPS, register_op_attr
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.op import op as reg
from byoc.relay.op.attributes.convolution import Conv2DAttrs
from byoc.runtime.kernels import get_kernel


@pytest.fixture
def custom():
    """A name for an operator, which is forgotten after the test."""
    name = "custom_op_of_a_test"
    yield name
    OPS._values.pop(name, None)
    OPS._places.pop(name, None)


def test_a_custom_operator_is_made_step_by_step(custom):
    reg.register(custom, "Add two tensors.")
    reg.get(custom).set_num_inputs(2)
    reg.get(custom).add_argument("data_0", "Tensor", "The first.")
    reg.get(custom).add_argument("data_1", "Tensor", "The second.")
    reg.get(custom).add_type_rel("Broadcast")
    reg.get(custom).set_support_level(1)
    reg.register_pattern(custom, reg.OpPattern.ELEMWISE)
    reg.register_stateful(custom, False)
    op = relay.op.get(custom)
    assert (op.name, op.num_inputs, op.support_level, op.description) == (custom, 2, 1, "Add two tensors.")
    assert [(a.name, a.type_info) for a in op.arguments] == [("data_0", "Tensor"), ("data_1", "Tensor")]
    assert op.get_attr("TOpPattern") == reg.OpPattern.ELEMWISE
    assert op.get_attr("TOpIsStateful") is False
    call = relay.Call(op, [relay.var("x", shape=(3, 1)), relay.var("y", shape=(4,))])
    assert infer_expr(call) == relay.TensorType((3, 4))


def test_a_custom_relation_gets_the_types_and_the_attributes(custom):
    seen = []

    def relation(arg_types, attrs):
        seen.append((list(arg_types), attrs))
        return relay.TensorType((*arg_types[0].shape, int(attrs["extra"])), "int8")

    reg.register(custom)
    reg.get(custom).set_num_inputs(1)
    reg.get(custom).set_attrs_type_key("DictAttrs")
    reg.get(custom).add_type_rel("custom", relation)
    attrs = DictAttrs({"extra": 7})
    call = relay.Call(reg.get(custom), [relay.var("x", shape=(2,))], attrs)
    assert infer_expr(call) == relay.TensorType((2, 7), "int8")
    assert seen == [([relay.TensorType((2,))], attrs)]


def test_attributes_are_named_by_their_class(custom):
    op = reg.register(custom)
    op.set_attrs_type_key("relay.attrs.Conv2DAttrs")
    assert op.attrs_type is Conv2DAttrs and op.attrs_type_key == "relay.attrs.Conv2DAttrs"
    with pytest.raises(RegistryError, match="no class of attributes is called 'NoSuchAttrs'"):
        op.set_attrs_type_key("relay.attrs.NoSuchAttrs")


def test_a_name_is_registered_once(custom):
    reg.register(custom)
    with pytest.raises(RegistryError, match="is registered already, at .*test_op_registration.py"):
        reg.register(custom)


def test_a_relation_must_be_known_by_its_name(custom):
    with pytest.raises(RegistryError, match="type_relation.Nonsense"):
        reg.register(custom).add_type_rel("Nonsense")


@pytest.mark.parametrize(
    "function, key",
    [
        (reg.register_compute, "FTVMCompute"),
        (reg.register_strategy, "FTVMStrategy"),
        (reg.register_legalize, "FTVMLegalize"),
        (reg.register_alter_op_layout, "FTVMAlterOpLayout"),
        (reg.register_convert_op_layout, "FTVMConvertOpLayout"),
        (reg.register_gradient, "FPrimalGradient"),
        (reg.register_infer_correct_layout, "FInferCorrectLayout"),
        (reg.register_external_compiler, "FTVMExternalCompiler"),
        (reg.register_fake_quantization_to_integer, "FTVMFakeQuantizationToInteger"),
        (reg.register_optional_fake_quantization_to_integer, "FTVMOptionalFakeQuantizationToInteger"),
        (reg.register_mixed_precision_conversion, "FTVMMixedPrecisionConversionType"),
    ],
)
def test_a_rule_is_kept_under_relays_name_as_call_and_as_decorator(function, key, custom):
    reg.register(custom)
    function(custom, lambda *args: 1)
    assert reg.get(custom).get_attr(key)() == 1

    @function(custom, level=11)
    def rule(*args):
        return 2

    assert reg.get(custom).get_attr(key) is rule and rule() == 2


def test_a_shape_function_says_which_inputs_it_reads(custom):
    reg.register(custom)

    @reg.register_shape_func(custom, True)
    def shape(attrs, inputs, out_ndims):
        return []

    assert reg.get(custom).get_attr("FShapeFunc") is shape
    assert reg.get(custom).get_attr("TShapeDataDependent") == [True]
    reg.register_shape_func(custom, [False, True], shape)
    assert reg.get(custom).get_attr("TShapeDataDependent") == [False, True]


def test_the_number_of_inputs_may_be_free(custom):
    op = reg.register(custom)
    op.set_num_inputs(-1)
    op.add_type_rel("Identity")
    call = relay.Call(op, [relay.var("x", shape=(2,)), relay.var("y", shape=(5,)), relay.var("z", shape=(6,))])
    assert infer_expr(call) == relay.TensorType((2,))


def test_debug_calls_its_function_with_the_value():
    seen = []
    call = relay.op.debug(relay.var("x", shape=(), dtype="int32"), debug_func=seen.append)
    assert call.op.name == "debug" and call.attrs.debug_func.startswith("debugger_func")
    result = get_kernel("debug")(np.array(5, "int32"), **call.attrs.as_dict())
    assert result == 5
    assert [value.numpy().item() for value in seen] == [5]


def test_a_debug_function_of_another_process_is_refused():
    with pytest.raises(KernelError, match="no function 'elsewhere'"):
        get_kernel("debug")(np.zeros(1), debug_func="elsewhere")


def test_basic_operators_have_relays_support_levels():
    x = relay.Var("x")
    for level, names in {1: "log exp sqrt rsqrt tanh", 3: "ceil floor trunc round abs negative"}.items():
        for name in names.split():
            assert getattr(relay, name)(x).op.support_level == level


def test_registering_works_before_anything_else_is_imported():
    program = (
        "from byoc.relay import op as _op\n"
        "_op.register('custom', 'text')\n"
        "_op.get('custom').set_num_inputs(1)\n"
        "_op.get('custom').add_type_rel('Identity')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_attribute_of_a_higher_level_is_kept():
    op = relay.op.get("nn.relu")
    op.set_attr("test.level", "high", 11)
    op.set_attr("test.level", "low", 10)
    assert op.get_attr("test.level") == "high"
    op.set_attr("test.level", "again", 11)
    assert op.get_attr("test.level") == "again"
    op.reset_attr("test.level")
    op.set_attr("test.level", "low", 10)
    assert op.get_attr("test.level") == "low"
    op.reset_attr("test.level")


@pytest.fixture
def key():
    yield "test.owner"
    relay.op.get("nn.relu").reset_attr("test.owner")


def test_an_attribute_of_another_owner_is_replaced_by_a_higher_level_alone(key):
    """As in TVM's attribute registry: the same level twice is an error, a higher one wins, a lower one is left out."""

    def first(call):
        return "first"

    def second(call):
        return "second"

    relu = relay.op.get("nn.relu")
    register_op_attr("nn.relu", key, first)
    with pytest.raises(
        RegistryError, match=r"'test.owner' of nn.relu is registered twice at level 10: by .*first and by .*"
    ):
        register_op_attr("nn.relu", key)(second)
    assert relu.get_attr(key) is first
    register_op_attr("nn.relu", key, second, level=9)
    assert relu.get_attr(key) is first
    register_op_attr("nn.relu", key, second, level=11)
    assert relu.get_attr(key) is second
    with pytest.raises(RegistryError, match="level=12"):
        register_op_attr("nn.relu", key, first, level=11)


def test_an_attribute_that_is_registered_again_by_its_owner_is_replaced(key):
    relu = relay.op.get("nn.relu")
    for number in range(2):

        @register_op_attr("nn.relu", key)
        def predicate(call, number=number):
            return number

    assert relu.get_attr(key)(None) == 1
    relu.reset_attr(key)
    for number in range(2):
        register_op_attr("nn.relu", key, number + 1)
    assert relu.get_attr(key) == 2


def test_what_byoc_registers_gives_way_at_its_own_level(key):
    def rule(call):
        return None

    register_op_attr("nn.relu", key, relay.nn.relu)
    register_op_attr("nn.relu", key, rule)
    assert relay.op.get("nn.relu").get_attr(key) is rule
