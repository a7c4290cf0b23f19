"""The pattern language: what matches, what does not, and what rewriting makes of it."""

import pytest

from byoc import relay
from byoc.errors import UserError
from byoc.ir.attrs import DictAttrs
from byoc.ir.op import get_op
from byoc.relay import op
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.dataflow_pattern import (
    DFPatternCallback,
    FunctionPattern,
    TuplePattern,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    rewrite,
    wildcard,
)
from byoc.relay.expr import Call, Function, If, Let, Tuple, TupleGetItem

K_ELEMWISE = 0


def var(name, shape=(2, 3), dtype="float32"):
    return relay.var(name, shape=shape, dtype=dtype)


def test_an_operator_matches_itself_alone():
    assert is_op("add").match(get_op("add"))
    assert not is_op("add").match(get_op("subtract"))


def test_variables_match_by_name_and_constants_by_class():
    assert is_var("x").match(var("x")) and is_var().match(var("x"))
    assert not is_var("x").match(var("y"))
    assert is_constant().match(relay.const(5)) and not is_constant().match(var("x"))


def test_an_expression_matches_by_structure():
    x, y = var("x"), var("y")
    assert is_expr(op.add(x, y)).match(op.add(x, y))
    assert not is_expr(op.add(x, y)).match(op.add(x, x))
    assert is_expr(relay.const(5)).match(relay.const(5)) and not is_expr(relay.const(5)).match(relay.const(6))


def test_addition_and_multiplication_match_either_way_round_and_subtraction_does_not():
    x, y = var("x"), var("y")
    assert (is_var("x") + is_var("y")).match(op.add(y, x))
    assert (is_var("x") * is_var("y")).match(op.multiply(y, x))
    assert not (is_var("x") - is_var("y")).match(op.subtract(y, x))
    assert not (is_var("x") / is_var("y")).match(op.divide(y, x))


def test_products_and_quotients_match_in_each_others_form():
    x, y, z = var("x"), var("y"), var("z")
    quotient_of_product = (is_var("x") * is_var("y")) / is_var("z")
    for expr in (op.divide(op.multiply(x, y), z), op.multiply(op.divide(x, z), y), op.multiply(x, op.divide(y, z))):
        assert quotient_of_product.match(expr)
    product_with_quotient = is_var("x") * (is_var("y") / is_var("z"))
    assert product_with_quotient.match(op.divide(op.multiply(x, y), z))
    assert not quotient_of_product.match(op.multiply(op.divide(x, y), z))


def test_a_call_with_the_wrong_number_of_arguments_does_not_match_and_open_arguments_do():
    x = var("x")
    assert not is_op("add")(wildcard()).match(op.add(x, x))
    assert is_op("add")(None).match(op.add(x, x))


def test_one_pattern_object_matches_one_expression_and_two_wildcards_any():
    x, y = var("x"), var("y")
    one = wildcard()
    assert (one - one).match(op.subtract(x, x)) and not (one - one).match(op.subtract(x, y))
    assert (wildcard() - wildcard()).match(op.subtract(x, x))


def test_a_shared_part_is_a_diamond():
    x = var("x")
    top = op.abs(x)
    part = is_op("abs")(is_var())
    pattern = is_op("add")(is_op("exp")(part), is_op("tanh")(part))
    assert pattern.match(op.add(op.exp(top), op.tanh(top)))
    assert not pattern.match(op.add(op.exp(top), op.tanh(op.abs(x))))


def test_alternatives_and_optional_parts():
    x = var("x")
    pattern = (is_op("add") | is_op("subtract"))(wildcard(), wildcard()).optional(lambda p: is_op("nn.relu")(p))
    assert pattern.match(op.add(x, x)) and pattern.match(op.nn.relu(op.subtract(x, x)))
    assert not pattern.match(op.nn.relu(op.multiply(x, x)))


def test_an_alternative_that_fails_forgets_what_it_matched():
    x, y = var("x"), var("y")
    shared = wildcard()
    pattern = is_op("subtract")(shared, is_var("z")) | is_op("subtract")(wildcard(), shared)
    assert pattern.match(op.subtract(x, y))


def test_types_shapes_and_dtypes():
    x = var("x", (2, 3))
    assert has_shape((2, 3)).match(x) and not has_shape((3, 2)).match(x)
    assert has_dtype("float32").match(op.abs(x)) and not has_dtype("int8").match(op.abs(x))
    assert has_type(relay.TensorType((2, 3))).match(x) and not has_type(relay.TensorType((2,))).match(x)
    assert is_var("x").has_shape((2, 3)).match(x) and not is_var("y").has_dtype("float32").match(x)
    assert not has_shape((2, 3)).match(Tuple([x]))


def test_attributes_of_operators_calls_and_functions():
    x = var("x")
    assert is_op("abs").has_attr({"TOpPattern": K_ELEMWISE}).match(get_op("abs"))
    assert not is_op("abs").has_attr({"TOpPattern": 4}).match(get_op("abs"))
    clip = op.clip(x, 0.0, 6.0)
    assert is_op("clip")(wildcard()).has_attr({"a_max": 6.0}).match(clip)
    assert not is_op("clip")(wildcard()).has_attr({"a_max": 5.0}).match(clip)
    assert not is_op("clip")(wildcard()).has_attr({"axis": 1}).match(clip)
    assert has_attr({}).match(op.abs(x)) and not has_attr({}).match(x)
    f = var("f")
    call = relay.Call(f, [x], DictAttrs({"kind": "a", "sizes": [1, 2]}))
    for wanted, holds in (({"kind": "a"}, True), ({"sizes": [1, 2]}, True), ({"kind": "b"}, False), ({"no": 1}, False)):
        assert has_attr(wanted).match(call) is holds
    assert has_attr({}).match(call) and has_attr({}).match(relay.Call(f, [x]))
    func = Function([x], op.abs(x), attrs={"Composite": "acme.abs"})
    assert has_attr({"Composite": "acme.abs"}).match(func) and not has_attr({"Composite": "b"}).match(func)


def test_functions_ifs_lets_tuples_and_projections():
    x, y = var("x"), var("y")
    cond = relay.var("c", shape=(), dtype="bool")
    func = Function([x, y], op.add(x, y))
    assert FunctionPattern([is_var("x"), is_var("y")], wildcard() + wildcard()).match(func)
    assert FunctionPattern(None, wildcard() + wildcard()).match(func)
    assert not FunctionPattern([is_var("x")], wildcard()).match(func)
    assert is_if(is_var("c"), is_var("x"), is_var("y")).match(If(cond, x, y))
    assert not is_if(is_var("c"), is_var("y"), is_var("x")).match(If(cond, x, y))
    assert is_let(is_var("x"), is_var("y"), is_op("abs")(wildcard())).match(Let(x, y, op.abs(x)))
    pair = Tuple([x, y])
    assert is_tuple([is_var("x"), wildcard()]).match(pair) and not is_tuple([wildcard()]).match(pair)
    assert TuplePattern(None).match(pair)
    assert is_tuple_get_item(wildcard(), 1).match(TupleGetItem(pair, 1))
    assert not is_tuple_get_item(wildcard(), 0).match(TupleGetItem(pair, 1))
    assert is_tuple_get_item(wildcard()).match(TupleGetItem(pair, 1))


def test_a_parent_dominates_through_elementwise_paths_only():
    x, w = var("x"), var("w")
    elementwise = (wildcard().has_attr({"TOpPattern": K_ELEMWISE}))(wildcard())
    reduction = is_op("add")(wildcard(), wildcard())
    pattern = reduction.dominates(is_op("multiply")(wildcard(), wildcard()), elementwise)
    top = op.multiply(x, w)
    assert pattern.match(op.add(op.abs(op.exp(top)), op.tanh(top)))
    assert not pattern.match(op.add(op.abs(op.add(top, w)), op.tanh(top)))
    assert not pattern.match(op.add(op.abs(x), op.tanh(x)))


def test_a_way_up_that_ends_at_a_variable_leaves_the_dominated_path():
    x, w = var("x"), var("w")
    unary = (wildcard().has_attr({"TOpPattern": K_ELEMWISE}))(wildcard())
    pattern = is_op("add")(wildcard(), wildcard()).dominates(is_op("multiply")(wildcard(), wildcard()), unary)
    assert not pattern.match(op.add(op.tanh(op.multiply(x, w)), op.abs(op.exp(x))))
    assert pattern.match(op.add(op.tanh(op.multiply(x, w)), x))


def test_a_parent_that_is_used_elsewhere_does_not_dominate():
    x, w = var("x"), var("w")
    top = op.multiply(x, w)
    child = op.add(op.abs(top), op.tanh(top))
    pattern = is_op("add")(wildcard(), wildcard()).dominates(is_op("multiply")(wildcard(), wildcard()))
    assert pattern.match(child)
    assert pattern.partition(Tuple([child, top])).fields[0] is child


def test_a_recursive_pattern_matches_a_chain_of_a_hundred_thousand_calls():
    expr = x = var("x")
    for _ in range(100_000):
        expr = op.abs(expr)
    chain = wildcard()
    chain.redirect_to(is_op("abs")(chain) | is_var())
    assert chain.match(expr)
    assert not chain.match(op.abs(op.exp(x)))


def test_a_wildcard_that_is_redirected_after_a_match_stands_for_what_it_says_now():
    x = var("x")
    inner = wildcard()
    pattern = is_op("nn.relu")(inner)
    both = op.add(op.nn.relu(op.exp(x)), op.nn.relu(op.abs(x)))
    assert len(pattern.partition(both).args) == 2 and made_of(pattern, both) == 2
    inner.redirect_to(is_op("exp")(wildcard()))
    assert made_of(pattern, both) == 1
    inner.redirect_to(is_op("abs")(wildcard()) | is_op("exp")(wildcard()))
    assert made_of(pattern, both) == 2


def made_of(pattern, expr):
    """How many functions *pattern* makes of calls under *expr*."""
    return sum(isinstance(arg.op, Function) for arg in pattern.partition(expr).args)


def test_partition_makes_functions_with_names_parameters_and_attributes():
    x, w, b = var("x", (1, 4)), var("w", (5, 4)), var("b", (5,))
    pattern = is_op("nn.relu")(is_op("nn.bias_add")(is_op("nn.dense")(wildcard(), wildcard()), wildcard()))
    made = pattern.partition(op.nn.relu(op.nn.bias_add(op.nn.dense(x, w), b)), {"Composite": "acme.dense"})
    assert isinstance(made, Call) and made.args == (x, w, b)
    assert made.op.attrs["PartitionedFromPattern"] == "nn.dense_nn.bias_add_nn.relu_"
    assert made.op.attrs["Composite"] == "acme.dense"
    assert [p.name_hint for p in made.op.params] == [f"FunctionVar_0_{k}" for k in range(3)]


def test_partition_leaves_the_parameters_untyped_and_typing_fills_them():
    x, w = var("x", (1, 4)), var("w", (5, 4))
    pattern = is_op("nn.relu")(is_op("nn.dense")(wildcard(), wildcard()))
    dense = op.nn.relu(op.nn.dense(x, w))
    infer_expr(dense)
    made = pattern.partition(dense)
    assert [p.type_annotation for p in made.op.params] == [None, None]
    a, b = relay.var("a"), relay.var("b")
    expected = Function([a, b], op.nn.relu(op.nn.dense(a, b)), attrs={"PartitionedFromPattern": "nn.dense_nn.relu_"})
    relay.assert_structural_equal(made, expected(x, w))


def test_an_attribute_that_went_through_a_float32_is_still_the_same():
    x = var("x")
    assert relay.structural_equal(op.nn.leaky_relu(x, alpha=1e-3), op.nn.leaky_relu(x, alpha=0.0010000000474974513))
    assert not relay.structural_equal(op.nn.leaky_relu(x, alpha=1e-3), op.nn.leaky_relu(x, alpha=0.00100001))


def test_partition_does_not_enter_what_a_pattern_made():
    x = var("x")
    once = is_op("abs")(wildcard()).partition(op.abs(x))
    assert is_op("abs")(wildcard()).partition(once) is once


def test_partition_of_a_called_function_names_it():
    x, y, a, b = var("x"), var("y"), var("a"), var("b")
    func = Function([a, b], op.multiply(a, b))
    pattern = FunctionPattern([wildcard(), wildcard()], wildcard() * wildcard())(wildcard(), wildcard()) + wildcard()
    made = pattern.partition(op.add(func(x, y), y))
    assert made.op.attrs["PartitionedFromPattern"] == "multiply_FunctionCall_add_"
    assert made.args == (x, y)


def test_partition_keeps_a_constant_inside_only_where_the_pattern_says_constant():
    x = var("x")
    expr = op.add(x, relay.const(2.0))
    inside = (is_var() + is_constant()).partition(expr)
    outside = (is_var() + wildcard()).partition(expr)
    either = (is_var() + (is_constant() | wildcard())).partition(expr)
    assert [len(e.args) for e in (inside, outside, either)] == [1, 2, 1]


def test_partition_refuses_a_match_whose_middle_is_used_outside():
    x = var("x")
    middle = op.abs(x)
    pattern = is_op("exp")(is_op("abs")(wildcard()))
    expr = Tuple([op.exp(middle), middle])
    assert pattern.partition(expr) is expr


def test_partition_duplicates_a_middle_whose_other_uses_flow_into_the_root():
    x = var("x")
    middle = op.abs(x)
    expr = op.add(op.exp(middle), op.tanh(middle))
    made = (is_op("exp")(is_op("abs")(wildcard())) + wildcard()).partition(expr)
    assert made.op.attrs["PartitionedFromPattern"] == "abs_exp_add_"
    assert any(isinstance(arg, Call) and arg.op.name == "tanh" for arg in made.args)


def test_a_function_pattern_cannot_be_partitioned_and_says_so():
    x = var("x")
    func = Function([x], op.abs(x))
    with pytest.warns(UserWarning, match="function pattern"):
        assert FunctionPattern(None, wildcard()).partition(func) is func


class AddToSubtract(DFPatternCallback):
    def __init__(self, **options):
        super().__init__(**options)
        self.left, self.right = wildcard(), wildcard()
        self.pattern = self.left + self.right

    def callback(self, pre, post, node_map):
        return op.subtract(node_map[self.left][0], node_map[self.right][0])


def test_rewrite_replaces_every_match_and_gives_rewritten_inputs():
    x, y = var("x"), var("y")
    made = rewrite(AddToSubtract(), op.add(op.add(x, y), y))
    assert relay.structural.structural_equal(made, op.subtract(op.subtract(x, y), y))


def test_rewrite_stops_where_nothing_changes_and_where_rewrites_conflict():
    x, y = var("x"), var("y")

    class Grow(AddToSubtract):
        def callback(self, pre, post, node_map):
            return op.abs(post)

    with pytest.raises(UserError, match="Observed 100 rewrite passes, possible conflicting passes"):
        rewrite(Grow(), op.add(x, y))
    once = rewrite(Grow(rewrite_once=True), op.add(x, y))
    assert relay.structural.structural_equal(once, op.abs(op.add(x, y)))

    class Same(AddToSubtract):
        def callback(self, pre, post, node_map):
            return op.add(node_map[self.left][0], node_map[self.right][0])

    assert relay.structural.structural_equal(rewrite(Same(), op.add(x, y)), op.add(x, y))


def test_rewrite_infers_types_where_a_callback_requires_them():
    class OnShape(AddToSubtract):
        def __init__(self):
            super().__init__(require_type=True)
            self.pattern = (self.left + self.right).has_shape((2, 3))

    x = var("x")
    assert relay.structural.structural_equal(rewrite(OnShape(), op.add(x, x)), op.subtract(x, x))


def test_wrong_arguments_of_pattern_constructors_are_named():
    with pytest.raises(UserError, match="argument 1 must be a pattern, got Var"):
        is_op("add")(wildcard(), var("x"))
    with pytest.raises(UserError, match="has_type takes a type"):
        has_type("float32")
    with pytest.raises(UserError, match="Broken has no pattern"):
        rewrite(type("Broken", (DFPatternCallback,), {})(), var("x"))
