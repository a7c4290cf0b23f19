"""Lowering: what becomes a group, a stage, a constant and an output, and why a function is refused."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.kernel.lower import lower_function, unsupported_reason
from byoc.codegen.kernel.writer import comment_text, identifier
from byoc.errors import CompileError
from byoc.ir.span import Span
from byoc.ir.types import Any, TensorType, TupleType
from byoc.relay.expr import Call, Function, Let, Tuple, TupleGetItem, const, var
from byoc.te.evaluate import evaluate


def _x(*shape, name="x"):
    return var(name, TensorType(shape or (2, 3)))


def _primitive(body, params):
    return Function(params, body, attrs={"Primitive": 1})


def _stages(program):
    return [[s.name for s in g.stages] for g in program.groups]


def test_each_call_outside_of_a_function_is_a_group_with_its_span():
    x = _x()
    body = relay.exp(relay.exp(x))
    body.span, body.args[0].span = Span.named("Exp_1"), Span.named("Exp_0")
    program = lower_function(Function([x], body), "f")
    assert [(g.name, g.origin) for g in program.groups] == [("exp", ("Exp_0",)), ("exp_1", ("Exp_1",))]
    assert len(program.temporaries) == 1


def test_elementwise_calls_of_a_primitive_function_become_one_stage():
    x = _x()
    program = lower_function(_primitive(relay.abs(relay.add(x, x)), [x]), "f")
    assert len(program.groups) == 1 and len(program.groups[0].stages) == 1
    assert program.groups[0].name == "fused_add_abs"


def test_an_expensive_value_that_is_used_twice_across_elements_stays_a_stage():
    x = _x(4, 8)
    e = relay.exp(x)
    program = lower_function(_primitive(relay.divide(e, relay.sum(e, axis=[1], keepdims=True)), [x]), "f")
    assert len(program.groups[0].stages) == 3
    value = np.random.default_rng(0).normal(size=(4, 8)).astype("float32")
    want = np.exp(value) / np.exp(value).sum(1, keepdims=True)
    np.testing.assert_allclose(evaluate(program.outputs[0], {program.inputs[0]: value}), want, rtol=1e-5)


def test_a_bias_after_a_matrix_product_is_the_epilogue_of_its_only_stage():
    x, w, b = _x(4, 8), _x(5, 8, name="w"), _x(5, name="b")
    program = lower_function(_primitive(relay.add(relay.nn.dense(x, w), b), [x, w, b]), "f")
    assert len(program.groups[0].stages) == 1 and not program.temporaries


def test_a_number_is_part_of_the_expression_and_an_array_a_constant_of_the_signature():
    x = _x()
    array = np.arange(6, dtype="float32").reshape(2, 3)
    program = lower_function(_primitive(relay.add(relay.add(x, const(2.0)), const(array)), [x]), "f")
    assert [c.name for c in program.signature.constants] == ["f_const_0"]
    np.testing.assert_array_equal(program.constants[0][1].numpy(), array)


def test_outputs_that_are_inputs_constants_or_repeated_are_copied():
    x = _x()
    y = relay.abs(x)
    program = lower_function(Function([x], Tuple([y, y, x, const(np.ones((2, 3), "float32")), const(1.0)])), "f")
    assert len(set(program.outputs)) == 5
    assert not set(program.outputs) & set(program.inputs)
    assert set(program.outputs) <= {s for g in program.groups for s in g.stages}


def test_tuple_parameters_lets_and_projections_are_flattened():
    pair = var("pair", TupleType([TensorType((2, 3)), TensorType((2, 3))]))
    v = var("v")
    body = Let(v, relay.add(TupleGetItem(pair, 0), TupleGetItem(pair, 1)), relay.abs(v))
    program = lower_function(Function([pair], body), "f")
    assert [s.name for s in program.signature.inputs] == ["pair_0", "pair_1"]
    a, b = np.full((2, 3), -3, "float32"), np.ones((2, 3), "float32")
    values = dict(zip(program.inputs, (a, b), strict=True))
    np.testing.assert_array_equal(evaluate(program.outputs[0], values), a * 0 + 2)


def test_a_composite_inside_a_primitive_function_is_inlined():
    x, p = _x(), var("p")
    composite = Function([p], relay.abs(p), attrs={"Composite": "c.abs"})
    program = lower_function(_primitive(relay.exp(Call(composite, [x])), [x]), "f")
    assert _stages(program) == [[program.outputs[0].name]]


def test_a_long_chain_is_lowered_without_recursion_errors():
    x = _x()
    body = x
    for _ in range(600):
        body = relay.abs(relay.add(body, x))
    program = lower_function(_primitive(body, [x]), "f")
    assert 1 < len(program.groups[0].stages) < 600


@pytest.mark.parametrize(
    ("ty", "message"),
    [
        (TensorType((Any(), 3)), "has a dimension that is neither a number nor a named size"),
        (TensorType((2, 3), "string"), "no code is generated for dtype string"),
    ],
)
def test_a_function_that_cannot_be_generated_says_why(ty, message):
    x = var("x", ty)
    function = Function([x], Tuple([x]))
    assert message in unsupported_reason(function)
    with pytest.raises(CompileError, match=f"f: .*{message}"):
        lower_function(function, "f")


def test_names_of_the_model_never_become_code():
    assert identifier("3/conv:0 */ x") == "x3_conv_0_x"
    assert identifier("???") == "x"
    shown = comment_text('*/ int evil; /* \\ \n ??/ "é"')
    assert "*/" not in shown and "/*" not in shown and "\n" not in shown and "\\" not in shown and shown.isascii()
