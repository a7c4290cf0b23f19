"""Type inference: partly typed graphs, functions without annotations, calls between functions, and its messages."""

from __future__ import annotations

import pytest

from byoc import relay
from byoc.errors import TypeInferenceError
from byoc.ir.op import get_op
from byoc.ir.span import Span
from byoc.relay.analysis import infer_expr, infer_module

F32 = relay.TensorType((2, 3))


def test_a_composite_without_annotations_gets_the_types_of_its_arguments():
    p = relay.var("p")
    composite = relay.Function([p], relay.add(p, p), attrs={"Composite": "acme.double"})
    x = relay.var("x", shape=(2, 3))
    assert infer_expr(relay.Call(composite, [x])) == F32
    assert p.checked_type == F32


def test_a_global_function_without_annotations_gets_the_types_of_its_arguments():
    p, x = relay.var("p"), relay.var("x", shape=(2, 3))
    callee = relay.GlobalVar("callee")
    mod = relay.IRModule({callee: relay.Function([p], relay.add(p, p))})
    mod["main"] = relay.Function([x], relay.Call(callee, [x]))
    infer_module(mod)
    assert mod["main"].checked_type.ret_type == F32


def test_a_shared_subgraph_of_depth_1000_is_typed_once_per_node():
    node = relay.var("x", shape=(2, 3))
    for _ in range(1000):
        node = relay.add(node, node)
    assert infer_expr(node) == F32


def test_a_new_call_over_typed_nodes_is_typed():
    x = relay.var("x", shape=(2, 3))
    inner = relay.add(x, x)
    infer_expr(inner)
    assert infer_expr(relay.sum(relay.multiply(inner, inner), axis=0)) == relay.TensorType((3,))


def test_a_global_name_is_typed_anew_in_another_module():
    callee = relay.GlobalVar("callee")
    x = relay.var("x", shape=(2, 3))

    def module(body):
        mod = relay.IRModule({callee: relay.Function([x], body)})
        y = relay.var("y", shape=(2, 3))
        mod["main"] = relay.Function([y], relay.Call(callee, [y]))
        return infer_module(mod)["main"].checked_type.ret_type

    assert module(relay.add(x, x)) == F32
    assert module(relay.sum(x, axis=0)) == relay.TensorType((3,))


def test_branches_that_differ_in_a_dimension_give_an_unknown_one():
    cond = relay.var("c", shape=(), dtype="bool")
    node = relay.If(cond, relay.var("a", shape=(2, 3)), relay.var("b", shape=(2, relay.Any("N"))))
    assert infer_expr(node) == relay.TensorType((2, relay.Any()))


def test_a_recursive_let_needs_a_declared_type_only():
    f, p, x = relay.var("f"), relay.var("p", shape=(2, 3)), relay.var("x", shape=(2, 3))
    func = relay.Function([p], relay.Call(f, [p]), ret_type=F32)
    assert infer_expr(relay.Let(f, func, relay.Call(f, [x]))) == F32


def test_a_function_that_calls_itself_is_typed_by_its_declaration():
    loop, p = relay.GlobalVar("loop"), relay.var("p", shape=(2, 3))
    mod = relay.IRModule({loop: relay.Function([p], relay.Call(loop, [p]), ret_type=F32)})
    assert infer_module(mod)[loop].checked_type.ret_type == F32


def _message(expr: relay.Expr, mod: relay.IRModule | None = None) -> str:
    with pytest.raises(TypeInferenceError) as caught:
        infer_expr(expr, mod)
    return str(caught.value)


def test_shapes_that_do_not_broadcast_name_operator_node_and_types():
    call = relay.add(relay.var("x", shape=(2, 3)), relay.var("y", shape=(4,)))
    call.span = Span.named("Add_7")
    text = _message(call)
    assert "add" in text and "Add_7" in text and "Tensor[(4,), float32]" in text


def test_a_variable_without_a_type_is_named():
    assert "%x" in _message(relay.Tuple([relay.var("x")]))


def test_a_wrong_number_of_arguments_is_counted():
    p = relay.var("p", shape=(1,))
    assert "1 parameters" in _message(relay.Call(relay.Function([p], p), []))


def test_a_tuple_where_a_tensor_is_expected_is_explained():
    x = relay.var("x", shape=(2, 3))
    text = _message(relay.Call(get_op("negative"), [relay.Tuple([x])]))
    assert "negative" in text and "must be a tensor" in text


def test_missing_attributes_are_explained():
    x = relay.var("x", shape=(2, 3))
    assert "takes attributes" in _message(relay.Call(get_op("sum"), [x]))


def test_a_missing_field_of_a_tuple_is_named():
    assert "no field 2" in _message(relay.TupleGetItem(relay.Tuple([relay.var("x", shape=(1,))]), 2))


def test_a_let_that_contradicts_its_annotation_is_refused():
    v = relay.var("v", shape=(2,))
    assert "declared as" in _message(relay.Let(v, relay.const([1.0, 2.0, 3.0]), v))


def test_an_unknown_global_function_is_named():
    assert "@nowhere" in _message(relay.Call(relay.GlobalVar("nowhere"), []), relay.IRModule())


def test_what_is_called_must_be_a_function():
    assert "only functions" in _message(relay.Call(relay.var("x", shape=(1,)), []))


def test_a_condition_must_be_a_scalar_bool():
    x = relay.var("x", shape=(2,))
    assert "condition" in _message(relay.If(x, x, x))


def test_100000_calls_in_a_chain_are_typed():
    node = relay.var("x", shape=(2,))
    for _ in range(100_000):
        node = relay.Call(get_op("negative"), [node])
    assert infer_expr(node) == relay.TensorType((2,))
