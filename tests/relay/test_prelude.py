"""The prelude: its types, and what its functions compute, against Python's own lists."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from byoc import relay
from byoc.annex.testing.nat import add_nat_definitions, count, make_nat_expr, make_nat_value
from byoc.errors import UserError
from byoc.relay.analysis import Feature, detect_feature
from byoc.relay.interpreter import ConstructorValue, evaluate_value
from byoc.relay.std.prelude import Prelude, StaticTensorArrayOps, TensorArrayOps, get_tensor_array_shape

PRELUDE = Prelude()
_, CONS, NIL = PRELUDE.mod.get_type("List")
_, SOME, NONE = PRELUDE.mod.get_type("Option")
_, ROSE = PRELUDE.mod.get_type("Tree")


def run(expr: relay.Expr, *args: np.ndarray, params: tuple[relay.Var, ...] = (), prelude: Prelude = PRELUDE) -> object:
    """What *expr* computes in the module of *prelude*, its lists as Python's lists."""
    mod = prelude.mod.shallow_copy()
    mod["main"] = relay.Function(params, expr)
    return plain(evaluate_value(relay.transform.InferType()(mod), list(args)))


def plain(value: object) -> object:
    if isinstance(value, ConstructorValue):
        name = value.constructor.name_hint
        if name in ("Cons", "Nil"):
            items = []
            while value.fields:
                items.append(plain(value.fields[0]))
                value = value.fields[1]
            return items
        return (name, *map(plain, value.fields)) if value.fields else name
    if isinstance(value, np.ndarray):
        return value.tolist()
    return tuple(plain(v) for v in value)


def number(n: int) -> relay.Expr:
    return relay.const(n, "int32")


def numbers(*ns: int) -> relay.Expr:
    return functools.reduce(lambda rest, n: CONS(number(n), rest), reversed(ns), NIL())


def lam(count: int, body: object) -> relay.Function:
    params = [relay.var(f"p{i}", "int32") for i in range(count)]
    return relay.Function(params, body(*params))


def test_every_definition_has_a_type() -> None:
    assert all(func.checked_type_ is not None for func in PRELUDE.mod.functions.values())
    assert str(PRELUDE.mod[PRELUDE.map].checked_type) == "fn <A, B> (fn (A) -> B, List[A]) -> List[B]"


def test_two_preludes_agree_and_loading_twice_adds_nothing() -> None:
    mod = relay.IRModule()
    before = len(Prelude(mod).mod)
    assert len(Prelude(mod).mod) == before == len(PRELUDE.mod)
    relay.assert_structural_equal(mod, PRELUDE.mod)


def test_its_text_is_read_back() -> None:
    mod = relay.IRModule()
    mod.import_from_std("prelude.rly")
    relay.assert_structural_equal(relay.parse(mod.astext()), mod)


def test_its_features_are_those_of_relays_prelude() -> None:
    without = {Feature.fRefCreate, Feature.fRefRead, Feature.fRefWrite, Feature.fGraph, Feature.fLetRec}
    assert detect_feature(PRELUDE.mod) == set(Feature) - without


def test_functions_of_lists() -> None:
    p, xs = PRELUDE, numbers(1, 2, 3)
    add, sub = lam(2, relay.add), lam(2, relay.subtract)
    assert run(p.hd(xs)) == 1 and run(p.tl(xs)) == [2, 3] and run(p.nth(xs, number(2))) == 3
    assert run(p.length(xs)) == 3 and run(p.sum(xs)) == 6 and run(p.update(xs, number(1), number(9))) == [1, 9, 3]
    assert run(p.map(lam(1, lambda x: relay.multiply(x, x)), xs)) == [1, 4, 9]
    assert run(p.foldl(sub, number(0), xs)) == ((0 - 1) - 2) - 3
    assert run(p.foldr(sub, number(0), xs)) == 1 - (2 - (3 - 0))
    assert run(p.foldr1(sub, xs)) == 1 - (2 - 3)
    assert run(p.concat(xs, numbers(4))) == [1, 2, 3, 4] and run(p.rev(xs)) == [3, 2, 1]
    assert run(p.filter(lam(1, lambda x: relay.greater(x, number(1))), xs)) == [2, 3]
    assert run(p.zip(xs, numbers(7, 8))) == [(1, 7), (2, 8)]
    assert run(p.foldl(add, number(0), NIL())) == 0


def test_accumulating_maps_differ_by_their_side() -> None:
    step = lam(2, lambda acc, x: relay.Tuple([relay.add(acc, x), relay.multiply(acc, x)]))
    assert run(PRELUDE.map_accuml(step, number(1), numbers(1, 2, 3))) == (7, [12, 4, 1])
    assert run(PRELUDE.map_accumr(step, number(1), numbers(1, 2, 3))) == (7, [6, 8, 3])


def test_unfolding_from_either_side() -> None:
    seed = relay.var("seed", "int32")
    less = relay.subtract(seed, number(1))
    body = relay.If(relay.equal(seed, number(0)), NONE(), SOME(relay.Tuple([less, seed])))
    down = relay.Function([seed], body)
    assert run(PRELUDE.unfoldr(down, number(3))) == [3, 2, 1]
    assert run(PRELUDE.unfoldl(down, number(3))) == [1, 2, 3]


def test_functions_of_functions_and_trees() -> None:
    twice, more = lam(1, lambda x: relay.multiply(x, number(2))), lam(1, lambda x: relay.add(x, number(1)))
    assert run(relay.Call(PRELUDE.compose(twice, more), [number(3)])) == 8
    assert run(relay.Call(PRELUDE.iterate(twice, number(5)), [number(1)])) == 32
    assert run(relay.Call(PRELUDE.flip(lam(2, relay.subtract)), [number(1), number(5)])) == 4
    tree = ROSE(number(1), CONS(ROSE(number(2), NIL()), CONS(ROSE(number(3), NIL()), NIL())))
    assert run(PRELUDE.size(tree)) == 3
    assert run(PRELUDE.tmap(more, tree)) == ("Rose", 2, [("Rose", 3, []), ("Rose", 4, [])])


def test_natural_numbers() -> None:
    prelude = Prelude(relay.IRModule())
    add_nat_definitions(prelude)
    nat, _zero, _after = prelude.mod.get_type("nat")
    double, plus = prelude.mod.get_global_var("nat_double"), prelude.mod.get_global_var("nat_add")
    assert prelude.mod[double].checked_type == relay.FuncType([nat()], nat())
    mod = prelude.mod.shallow_copy()
    mod["main"] = relay.Function([], plus(double(make_nat_expr(prelude, 3)), make_nat_expr(prelude, 1)))
    assert count(prelude, evaluate_value(relay.transform.InferType()(mod))) == 7
    assert count(prelude, make_nat_value(prelude, 4)) == 4
    to_int, of_int = prelude.mod.get_global_var("nat_to_int"), prelude.mod.get_global_var("int_to_nat")
    assert run(to_int(of_int(number(6))), prelude=prelude) == 6


def test_lazy_gradients_are_only_computed_where_they_must_be() -> None:
    prelude = Prelude(relay.IRModule())
    prelude.mod.import_from_std("gradient.rly")
    _, raw, one, zero = prelude.mod.get_type("GradCell")
    times = prelude.mod.get_global_var("MultiplyGradCell")
    made = relay.Function([], relay.const(0.0))
    product = times(lam_float(), zero(made), raw(relay.const(3.0)))
    assert run(relay.Match(product, [clause(zero, 0), clause(raw, 1), clause(one, 2)]), prelude=prelude) == 0
    number_of = prelude.mod.get_global_var("FromGradCell")
    assert run(number_of(times(lam_float(), raw(relay.const(2.0)), raw(relay.const(3.0)))), prelude=prelude) == 6.0


def lam_float() -> relay.Function:
    x, y = relay.var("x", "float32"), relay.var("y", "float32")
    return relay.Function([x, y], relay.multiply(x, y))


def clause(constructor: relay.Constructor, result: int) -> relay.Clause:
    return relay.Clause(relay.PatternConstructor(constructor, [relay.PatternWildcard()]), number(result))


def test_tensor_arrays_of_any_shape() -> None:
    p, dtype = PRELUDE, "float32"
    one, two = p.get_tensor_ctor("tensor1", dtype), p.get_tensor_ctor("tensor2", dtype)
    x, y = relay.var("x", shape=(relay.Any(),)), relay.var("y", shape=(relay.Any(),))
    a, b = np.arange(3, dtype=dtype), np.arange(2, dtype=dtype)
    empty = p.get_global_var("tensor_array", dtype)(number(2))
    write = p.get_global_var("tensor_array_write", dtype)
    filled = write(write(empty, number(0), one(x)), number(1), one(y))
    assert run(empty) == ["tensor_nil_float32"] * 2
    assert run(p.get_global_var("tensor_array_concat", dtype)(filled), a, b, params=(x, y)) == (
        "tensor1_float32",
        [0, 1, 2, 0, 1],
    )
    stacked = p.get_global_var("tensor_array_stack", dtype)(filled)
    assert run(stacked, a, a, params=(x, y)) == ("tensor2_float32", [a.tolist()] * 2)
    indices = relay.const(np.array([1, 0, 1], "int32"))
    gathered = p.get_global_var("tensor_array_gather", dtype)(filled, indices)
    assert run(gathered, a, a + 5, params=(x, y)) == (
        "tensor2_float32",
        [(a + 5).tolist(), a.tolist(), (a + 5).tolist()],
    )
    m = relay.var("m", shape=(relay.Any(), relay.Any()))
    taken = p.get_global_var("tensor_take", dtype)(two(m), number(1), number(3))
    data = np.arange(12, dtype=dtype).reshape(4, 3)
    assert run(taken, data, params=(m,)) == ("tensor2_float32", data[1:3].tolist())
    unstacked = p.get_global_var("tensor_array_unstack_tensor2", dtype)(m)
    assert run(unstacked, data, params=(m,)) == [("tensor1_float32", row) for row in data.tolist()]
    lengths = relay.const(np.array([1, 3], "int32"))
    parts = p.get_global_var("tensor_array_split", dtype)(empty, two(m), lengths)
    assert run(parts, data, params=(m,)) == [
        ("tensor2_float32", data[:1].tolist()),
        ("tensor2_float32", data[1:].tolist()),
    ]
    at = relay.const(np.array([1], "int32"))
    scattered = p.get_global_var("tensor_array_scatter", dtype)(filled, at, CONS(one(x), NIL()))
    assert run(scattered, a, b, params=(x, y)) == [("tensor1_float32", a.tolist())] * 2


@pytest.mark.parametrize("shape", [[4], [2, 3], [relay.Any(), 2]], ids=str)
def test_tensor_arrays_of_one_shape(shape: list[object]) -> None:
    p, dtype = Prelude(relay.IRModule()), "float32"
    ops = StaticTensorArrayOps(p, dtype, shape)
    ops.register()
    a = np.arange(np.prod([d if isinstance(d, int) else 3 for d in shape]), dtype=dtype)
    a = a.reshape([d if isinstance(d, int) else 3 for d in shape])
    make = p.get_tensor_ctor_static("tensor_constructor", dtype, shape)
    x, y = relay.var("x"), relay.var("y")
    array, write = (p.get_global_var_static(n, dtype, shape) for n in ("tensor_array", "tensor_array_write"))
    filled = write(write(array(number(2)), number(0), make(x)), number(1), make(y))

    def outcome(name: str, *more: relay.Expr) -> object:
        return run(p.get_global_var_static(name, dtype, shape)(filled, *more), a, a + 1, params=(x, y), prelude=p)[-1]

    assert outcome("tensor_array_stack") == np.stack([a, a + 1]).tolist()
    assert outcome("tensor_array_gather", relay.const(np.array([1], "int32"))) == (a + 1)[None].tolist()
    assert outcome("tensor_array_read", number(1)) == (a + 1).tolist()
    if not isinstance(shape[0], int):
        assert outcome("tensor_array_concat") == np.concatenate([a, a + 1]).tolist()
    both = p.get_global_var_static("tensor_concatenate", dtype, shape)(make(x), make(y))
    assert run(both, a, a + 1, params=(x, y), prelude=p)[-1] == np.concatenate([a, a + 1]).tolist()
    rows = p.get_global_var_static("tensor_array_unstack", dtype, shape)(x)
    assert [r[-1] for r in run(rows, a, params=(x,), prelude=p)] == a.tolist()
    data = p.get_global_var_static("tensor_get_data", dtype, shape)(make(x))
    assert run(data, a, params=(x,), prelude=p) == a.tolist()
    part = p.get_global_var_static("tensor_take", dtype, shape)(make(x), number(0), number(1))
    assert run(part, a, params=(x,), prelude=p)[-1] == a[:1].tolist()


def test_a_static_split_knows_the_shapes_of_its_value_and_lengths() -> None:
    p = Prelude(relay.IRModule())
    ops = StaticTensorArrayOps(p, "int32", [3, 2])
    ops.register()
    ops.define_tensor_array_split([4, 2], [2], True)
    ops.define_tensor_array_scatter([1], True)
    p.mod = relay.transform.InferType()(p.mod)
    _, value, lengths = p.mod["tensor_array_split_int32_3_2"].checked_type.arg_types
    assert value.func.name_hint == "static_tensor_int32_4_2_t" and lengths == relay.TensorType([2], "int32")
    assert p.mod["tensor_array_scatter_int32_3_2"].params[1].checked_type == relay.TensorType([1], "int32")


def test_the_shape_of_a_tensor_array() -> None:
    p = Prelude(relay.IRModule())
    StaticTensorArrayOps(p, "float32", [relay.Any(), 2]).register()
    static = p.get_global_var_static("tensor_array", "float32", [relay.Any(), 2])(number(3))
    assert get_tensor_array_shape(static, "float32", p) == (relay.Any(), 2)
    assert get_tensor_array_shape(p.get_global_var("tensor_array", "float32")(number(3)), "float32", p) is None
    with pytest.raises(UserError, match="a tensor array is a list of tensors"):
        get_tensor_array_shape(number(1), "float32", p)


def test_names_that_are_not_there_are_refused() -> None:
    assert TensorArrayOps(PRELUDE, "int8").get_ctor("tensor_nil").name_hint == "tensor_nil_int8"
    with pytest.raises(UserError, match="has no constructor 'tensor9_int8'"):
        PRELUDE.get_tensor_ctor("tensor9", "int8")
    with pytest.raises(UserError, match="known: core.rly, gradient.rly, nat.rly, prelude.rly"):
        relay.IRModule().import_from_std("missing.rly")
