"""The prelude's functions on lists, trees and tensor arrays, run by every executor that runs them."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.needs_cc
KINDS = ["debug", "vm"]


class World:
    """A module with the prelude, and one executor over it."""

    def __init__(self, kind):
        import tvm
        from tvm import relay
        from tvm.relay.prelude import Prelude

        self.tvm, self.relay, self.kind = tvm, relay, kind
        self.mod = tvm.IRModule()
        self.prelude = Prelude(self.mod)
        _, self.cons, self.nil = self.mod.get_type("List")

    def of(self, *items):
        result = self.nil()
        for item in reversed(items):
            result = self.cons(item if isinstance(item, self.relay.Expr) else self.relay.const(item), result)
        return result

    def __getattr__(self, name):
        return self.mod.get_global_var(name)

    def run(self, expr, *inputs):
        result = self.relay.create_executor(self.kind, self.mod, self.tvm.cpu(), "llvm").evaluate(expr)
        return result(*inputs) if callable(result) else result

    def fields(self, value):
        return value.fields if self.kind == "debug" else list(value)

    def items(self, value):
        found = []
        while self.fields(value):
            head, value = self.fields(value)
            found.append(head)
        return found

    def numbers(self, value):
        return [int(item.numpy()) for item in self.items(value)]


@pytest.fixture(params=KINDS)
def world(request, installed):
    return World(request.param)


def test_what_is_in_a_list_is_found(world):
    ten = world.of(*range(10))
    assert world.run(world.hd(world.of(4, 3))).numpy() == 4
    assert world.numbers(world.run(world.tl(world.of(4, 3)))) == [3]
    assert world.run(world.nth(ten, world.relay.const(7))).numpy() == 7
    assert world.run(world.length(ten)).numpy() == 10
    assert world.run(world.sum(ten)).numpy() == 45
    with pytest.raises(world.tvm.TVMError, match="no clause of a match fits"):
        world.run(world.tl(world.nil()))


def test_lists_are_made_of_lists(world):
    assert world.numbers(world.run(world.rev(world.concat(world.of(1, 2), world.of(3))))) == [3, 2, 1]
    changed = world.update(world.of(0, 0, 0), world.relay.const(1), world.relay.const(5))
    assert world.numbers(world.run(changed)) == [0, 5, 0]
    pairs = world.items(world.run(world.zip(world.of(1, 2, 3), world.of(7, 8))))
    assert [[int(field.numpy()) for field in pair] for pair in pairs] == [[1, 7], [2, 8]]


def test_functions_go_over_lists(world):
    relay = world.relay
    x, a, b = relay.var("x", "int32"), relay.var("a"), relay.var("b")
    more = relay.Function([x], relay.add(x, relay.const(1)))
    assert world.numbers(world.run(world.map(more, world.of(2, 1)))) == [3, 2]
    small = relay.Function([x], relay.less(x, relay.const(3)))
    assert world.numbers(world.run(world.filter(small, world.of(1, 5, 2)))) == [1, 2]
    turned = relay.Function([a, b], world.cons(b, a))
    assert world.numbers(world.run(world.foldl(turned, world.nil(), world.of(1, 2, 3)))) == [3, 2, 1]
    kept = relay.Function([a, b], world.cons(a, b))
    assert world.numbers(world.run(world.foldr(kept, world.nil(), world.of(1, 2, 3)))) == [1, 2, 3]
    thrice = relay.Call(world.iterate(more, relay.const(3)), [relay.const(1)])
    assert world.run(thrice).numpy() == 4
    composed = relay.Call(world.compose(more, more), [relay.const(1)])
    assert world.run(composed).numpy() == 3


def test_trees_are_measured_and_mapped(world):
    relay = world.relay
    _, rose = world.mod.get_type("Tree")
    leaf = [rose(relay.const(k), world.nil()) for k in (1, 2)]
    tree = rose(relay.const(0), world.of(*leaf))
    assert world.run(world.size(tree)).numpy() == 3
    x = relay.var("x", "int32")
    root, branches = world.fields(world.run(world.tmap(relay.Function([x], x + relay.const(5)), tree)))
    assert root.numpy() == 5 and [world.fields(b)[0].numpy() for b in world.items(branches)] == [6, 7]


def test_a_list_of_5000_cells_is_summed(world):
    relay = world.relay
    n = relay.var("n", "int32")
    upto, rest = relay.GlobalVar("upto"), relay.var("rest", world.mod.get_global_type_var("List")(n.type_annotation))
    step = relay.Call(upto, [relay.subtract(n, relay.const(1)), world.cons(n, rest)])
    body = relay.If(relay.less(n, relay.const(1)), rest, step)
    world.mod[upto] = relay.Function([n, rest], body, rest.type_annotation)
    count = relay.var("count", "int32")
    total = relay.Function([count], world.sum(relay.Call(upto, [count, world.nil()])))
    assert world.run(total, np.array(5000, "int32")).numpy() == 5000 * 5001 // 2


def test_static_tensor_arrays_are_written_and_stacked(world):
    from tvm.relay.prelude import StaticTensorArrayOps

    relay = world.relay
    ops = StaticTensorArrayOps(world.prelude, "float32", (3, 2))
    ops.register()
    v = relay.var("v", shape=(3, 2))
    array = ops.get_global_var("tensor_array")(relay.const(2))
    for index in range(2):
        write = ops.get_global_var("tensor_array_write")
        array = write(array, relay.const(index), ops.get_ctor("tensor_constructor")(v + relay.const(float(index))))
    data = np.arange(6, dtype="float32").reshape(3, 2)
    stacked = world.run(relay.Function([v], ops.get_global_var("tensor_array_stack")(array)), data)
    np.testing.assert_array_equal(world.fields(stacked)[0].numpy(), np.stack([data, data + 1]))


def test_tensor_arrays_of_any_shape_grow(world):
    relay = world.relay
    x = relay.var("x", "int32")
    make = world.prelude.get_global_var("tensor_array", "float32")
    assert len(world.items(world.run(relay.Function([x], make(x)), np.array(5, "int32")))) == 5


def test_natural_numbers_are_counted(world):
    from tvm.relay.testing import make_nat_expr

    world.prelude.mod.import_from_std("nat.rly")
    value = world.run(world.nat_double(world.nat_add(make_nat_expr(world.prelude, 3), make_nat_expr(world.prelude, 4))))
    count = 0
    while world.fields(value):
        (value,), count = world.fields(value), count + 1
    assert count == 14


def test_loops_close_over_what_they_use(world):
    from tvm.relay.loops import while_loop

    relay = world.relay
    x, i, total = (relay.var(name, shape=(), dtype="int32") for name in ("x", "i", "total"))
    loop = while_loop(
        lambda i, total: relay.less(i, relay.const(10)),
        [i, total],
        lambda i, total: (relay.add(i, relay.const(1)), relay.add(total, x)),
    )
    result = relay.TupleGetItem(loop(relay.const(0), relay.const(0)), 1)
    assert world.run(relay.Function([x], result), np.array(3, "int32")).numpy() == 30


@pytest.mark.parametrize("kind", ["graph", "vm", "debug"])
def test_a_recurrent_network_runs_everywhere_alike(installed, kind):
    import tvm
    from tvm import relay
    from tvm.relay import testing

    mod, params = testing.lstm.get_workload(2, 4)
    rng = np.random.default_rng(3)
    main = relay.transform.InferType()(mod)["main"]
    inputs = [p for p in main.params if p.name_hint not in params]
    given = [rng.uniform(size=p.checked_type.concrete_shape).astype("float32") for p in inputs]
    found = relay.create_executor(kind, mod, tvm.cpu(), "llvm", params).evaluate()(*given)
    wanted = relay.create_executor("debug", mod, params=params).evaluate()(*given)

    def flat(value):
        return [value.numpy()] if isinstance(value, tvm.nd.NDArray) else [a for part in value for a in flat(part)]

    for a, b in zip(flat(found), flat(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
