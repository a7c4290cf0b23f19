"""MergeComposite in the situations that Relay documents."""

import numpy as np
import pytest

from byoc import relay
from byoc.errors import PartitionError
from byoc.relay import op
from byoc.relay.dataflow_pattern import is_op, is_tuple_get_item, wildcard
from byoc.relay.expr import Call, Function, Tuple
from byoc.relay.interpreter import evaluate
from byoc.relay.transform import CompositeRecord, InferType, MergeComposite
from byoc.relay.traverse import post_order

ADD_RELU = ("acme.add_relu", is_op("nn.relu")(is_op("add")(wildcard(), wildcard())))
ADD_SUB_MUL = (
    "acme.add_sub_mul",
    is_op("multiply")(is_op("add")(wildcard(), wildcard()), is_op("subtract")(wildcard(), wildcard())),
)


def var(name, shape=(2, 3)):
    return relay.var(name, shape=shape)


def merged(table, body, record=None):
    mod = InferType()(relay.IRModule.from_expr(body))
    made = MergeComposite(table, record)(mod)
    inputs = [
        np.random.default_rng(k).standard_normal(p.checked_type.shape).astype("float32")
        for k, p in enumerate(mod["main"].params)
    ]
    for want, got in zip(_flat(evaluate(mod, inputs)), _flat(evaluate(made, inputs)), strict=True):
        np.testing.assert_array_equal(want, got)
    return made


def _flat(value):
    return value if isinstance(value, list) else [value]


def composites(mod):
    return [
        n.op.attrs["Composite"]
        for n in post_order(mod["main"])
        if isinstance(n, Call) and isinstance(n.op, Function) and "Composite" in n.op.attrs
    ]


def test_a_simple_pair_becomes_one_function():
    a, b = var("a"), var("b")
    mod = merged([ADD_RELU], op.nn.relu(op.add(a, b)))
    call = mod["main"].body
    assert call.op.attrs["Composite"] == "acme.add_relu"
    assert call.op.attrs["PartitionedFromPattern"] == "add_nn.relu_"
    assert "Primitive" not in call.op.attrs and "Compiler" not in call.op.attrs
    assert [p.name_hint for p in call.op.params] == ["FunctionVar_0_0", "FunctionVar_0_1"]
    assert call.checked_type == relay.TensorType((2, 3)) and call.op.params[0].checked_type == relay.TensorType((2, 3))


def test_a_pattern_with_branches_merges_each_occurrence():
    a, b = var("a"), var("b")
    inner = op.multiply(op.add(a, b), op.subtract(a, b))
    mod = merged([ADD_SUB_MUL], op.nn.relu(op.multiply(op.add(inner, b), op.subtract(a, inner))))
    assert composites(mod) == ["acme.add_sub_mul"] * 2


def test_a_result_used_by_the_next_match_is_an_argument():
    a, b = var("a"), var("b")
    first = op.multiply(op.add(a, b), op.subtract(a, b))
    second = op.multiply(op.add(first, first), op.subtract(first, first))
    mod = merged([ADD_SUB_MUL], second)
    assert composites(mod) == ["acme.add_sub_mul"] * 2
    assert len(mod["main"].body.args) == 1


def test_several_patterns_apply_in_the_order_of_the_table():
    x, w, b = var("x", (1, 4)), var("w", (4, 4)), var("b", (4,))
    dense = ("acme.dense_bias_relu", is_op("nn.relu")(is_op("nn.bias_add")(is_op("nn.dense")(None), wildcard())))
    add = ("acme.add_relu", ADD_RELU[1])
    mod = merged([dense, add], op.nn.relu(op.add(op.nn.relu(op.nn.bias_add(op.nn.dense(x, w), b)), x)))
    assert composites(mod) == ["acme.dense_bias_relu", "acme.add_relu"]


@pytest.mark.parametrize("with_relu", [True, False])
def test_an_optional_part_is_taken_where_it_is(with_relu):
    a, b = var("a"), var("b")
    table = [("acme.layer", is_op("add")(wildcard(), wildcard()).optional(lambda p: is_op("nn.relu")(p)))]
    mod = merged(table, op.nn.relu(op.add(a, b)) if with_relu else op.add(a, b))
    assert mod["main"].body.op.attrs["PartitionedFromPattern"] == ("add_nn.relu_" if with_relu else "add_")


@pytest.mark.parametrize("first", ["acme.long", "acme.short"])
def test_an_earlier_row_wins(first):
    a, b = var("a"), var("b")
    rows = {
        "acme.long": ("acme.long", is_op("nn.relu")(is_op("abs")(is_op("add")(wildcard(), wildcard())))),
        "acme.short": ("acme.short", is_op("abs")(is_op("add")(wildcard(), wildcard()))),
    }
    table = [rows.pop(first), *rows.values()]
    assert composites(merged(table, op.nn.relu(op.abs(op.add(a, b))))) == [first]


def test_parallel_branches_become_functions_of_their_own():
    a, b = var("a"), var("b")
    mod = merged([ADD_RELU], op.multiply(op.nn.relu(op.add(a, b)), op.nn.relu(op.add(b, a))))
    assert composites(mod) == ["acme.add_relu"] * 2


def test_several_inputs_and_subgraphs():
    a, b, c = var("a"), var("b"), var("c")
    left, right = op.add(op.abs(a), b), op.subtract(op.abs(c), b)
    mod = merged([ADD_SUB_MUL], op.multiply(left, right))
    assert len(mod["main"].body.args) == 3


def test_a_projection_is_merged_and_named():
    x = var("x", (1, 4, 2, 2))
    stats = [var(n, (4,)) for n in ("g", "b", "m", "v")]
    item = op.nn.batch_norm(x, *stats)[0]
    pattern = is_op("nn.relu")(is_tuple_get_item(is_op("nn.batch_norm")(None), 0))
    made = MergeComposite([("acme.norm", pattern)])(InferType()(relay.IRModule.from_expr(op.nn.relu(item))))
    assert made["main"].body.op.attrs["PartitionedFromPattern"] == "nn.batch_norm_TupleGetItem0_nn.relu_"


def test_a_check_decides_on_the_root():
    a, b = var("a"), var("b")
    seen = []

    def check(root):
        seen.append(root.op.name)
        return root.args[0].args[0] is a

    mod = relay.IRModule.from_expr(Tuple([op.nn.relu(op.add(a, b)), op.nn.relu(op.add(b, a))]))
    made = MergeComposite([(*ADD_RELU, check)])(mod)
    assert seen == ["nn.relu", "nn.relu"] and composites(made) == ["acme.add_relu"]


def test_a_check_that_raises_counts_as_no_and_is_recorded():
    a, b = var("a"), var("b")
    record = CompositeRecord()
    mod = merged([(*ADD_RELU, lambda root: root.nothing)], op.nn.relu(op.add(a, b)), record)
    assert composites(mod) == []
    assert "AttributeError" in str(record.failed_checks[0]) and "acme.add_relu" in str(record.failed_checks[0])


def test_a_refused_match_leaves_its_operators_reserved_for_that_pattern():
    a = var("a")
    pattern = is_op("abs")(wildcard()).optional(lambda p: is_op("exp")(p))
    row = ("acme.abs", pattern, lambda root: root.op.name == "abs")
    assert composites(merged([row], op.exp(op.abs(a)))) == []
    assert composites(merged([row, row], op.exp(op.abs(a)))) == []
    assert composites(merged([row], op.tanh(op.abs(a)))) == ["acme.abs"]


def test_a_diamond_with_a_middle_used_outside_is_not_merged():
    a, b = var("a"), var("b")
    middle = op.add(a, b)
    mod = merged([ADD_RELU], op.multiply(op.nn.relu(middle), op.exp(middle)))
    assert composites(mod) == []


def test_a_check_may_ask_for_types():
    a, b = var("a"), var("b")
    table = [(*ADD_RELU, lambda root: root.args[0].args[0].checked_type.dtype == "float32")]
    assert composites(merged(table, op.nn.relu(op.add(a, b)))) == ["acme.add_relu"]


def test_composites_carry_the_spans_of_what_they_hold():
    a, b = var("a"), var("b")
    (add,) = [op.add(a, b)]
    add.span = relay.Span.named("Add_1")
    relu = op.nn.relu(add)
    relu.span = relay.Span.named("Relu_2")
    call = merged([ADD_RELU], relu)["main"].body
    assert str(call.span) == str(call.op.span) == "Add_1 + Relu_2"


@pytest.mark.parametrize("row", [("x",), (1, wildcard()), ("x", "y"), ("x", wildcard(), 3), "xy"])
def test_a_bad_row_is_named(row):
    with pytest.raises(PartitionError, match="pattern"):
        MergeComposite([row])


def test_a_missing_table_is_reported():
    with pytest.raises(PartitionError, match="there is no pattern table"):
        MergeComposite(relay.op.contrib.get_pattern_table("nobody"))
