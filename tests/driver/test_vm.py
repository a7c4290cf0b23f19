"""Programs on the virtual machine against the reference interpreter and Python: control flow, closures, data."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.driver.vm import compile_module
from byoc.errors import CompileError, InputError, UserError
from byoc.relay.analysis import infer_module
from byoc.relay.interpreter import evaluate
from byoc.runtime import NDArray, cpu
from byoc.runtime.core.container import ADT
from byoc.runtime.vm import VirtualMachine

pytestmark = pytest.mark.needs_cc
INT, FLOAT = relay.TensorType((), "int32"), relay.TensorType((), "float32")
X = np.arange(6, dtype="float32").reshape(2, 3)


def machine(mod):
    return VirtualMachine(compile_module(mod), cpu())


def module(*params, body, ret_type=None):
    return relay.IRModule.from_expr(relay.Function(list(params), body, ret_type))


def plain(value):
    return [plain(v) for v in value] if isinstance(value, (ADT, list)) else np.asarray(value)


def check(mod, *inputs):
    """The machine and the interpreter agree; gives the machine's result."""
    expected = plain(evaluate(infer_module(mod), inputs))
    found = plain(machine(mod).run(*inputs))
    compare(found, expected)
    return found


def compare(found, expected):
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            compare(a, b)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert found.dtype == expected.dtype


class Lists:
    """A module with lists over any element."""

    def __init__(self):
        self.mod = relay.IRModule()
        self.type, element = relay.GlobalTypeVar("List"), relay.TypeVar("A")
        self.cons = relay.Constructor("Cons", [element, self.type(element)], self.type)
        self.nil = relay.Constructor("Nil", [], self.type)
        self.mod[self.type] = relay.TypeData(self.type, [element], [self.cons, self.nil])

    def of(self, *items):
        result = self.nil()
        for item in reversed(items):
            result = self.cons(relay.const(item), result)
        return result

    def cases(self, data, empty, filled):
        head, tail = relay.var("head"), relay.var("tail")
        cons = relay.PatternConstructor(self.cons, [relay.PatternVar(head), relay.PatternVar(tail)])
        clauses = [relay.Clause(relay.PatternConstructor(self.nil), empty), relay.Clause(cons, filled(head, tail))]
        return relay.Match(data, clauses)

    def main(self, body, *params):
        self.mod["main"] = relay.Function(list(params), body)
        return self.mod

    def map_function(self):
        a, b, name = relay.TypeVar("a"), relay.TypeVar("b"), relay.GlobalVar("map")
        f, xs = relay.var("f", relay.FuncType([a], b)), relay.var("xs", self.type(a))
        body = self.cases(xs, self.nil(), lambda h, t: self.cons(relay.Call(f, [h]), relay.Call(name, [f, t])))
        self.mod[name] = relay.Function([f, xs], body, self.type(b), [a, b])
        return name


def items(adt):
    found = []
    while len(adt):
        found.append(int(adt[0].numpy()))
        adt = adt[1]
    return found


def test_a_graph_is_one_call_of_generated_code():
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    mod = module(x, y, body=relay.nn.relu(relay.subtract(relay.add(x, y), relay.const(2.0))))
    check(mod, X, X)
    executable = compile_module(mod)
    assert executable.primitive_ops == ["vm_mod_fused_add_subtract_nn_relu"]
    assert executable.lib.imports[0].type_key == "c"


def test_weights_are_loaded_and_scalars_stand_in_the_code():
    x = relay.var("x", shape=(2, 3))
    weights = np.ones((4, 3), "float32")
    body = relay.multiply(relay.nn.dense(x, relay.const(weights)), relay.const(2.0))
    executable = compile_module(module(x, body=body))
    assert [c.shape for c in executable.constants] == [(4, 3)]
    np.testing.assert_allclose(VirtualMachine(executable, cpu()).run(X).numpy(), 2 * X @ weights.T)


def test_tuples_of_tuples_keep_their_nesting():
    x = relay.var("x", shape=(2, 3))
    parts = relay.split(x, 3, axis=1)
    body = relay.Tuple([x, relay.Tuple([parts[2], relay.Tuple([relay.negative(x)]), relay.Tuple([])])])
    result = machine(module(x, body=body)).run(X)
    assert (len(result), len(result[1]), len(result[1][1]), len(result[1][2])) == (2, 3, 1, 0)
    np.testing.assert_array_equal(result[1][0].numpy(), X[:, 2:])
    np.testing.assert_array_equal(result[1][1][0].numpy(), -X)


def test_a_tuple_goes_in_and_is_taken_apart():
    pair = relay.var("pair", relay.TupleType([relay.TensorType((2, 3)), relay.TupleType([relay.TensorType((2, 3))])]))
    joined = relay.concatenate(relay.Tuple([relay.TupleGetItem(pair, 0), relay.TupleGetItem(pair, 0)]), axis=0)
    other = relay.TupleGetItem(relay.TupleGetItem(pair, 1), 0)
    mod = module(pair, body=relay.Tuple([joined, relay.negative(other)]))
    check(mod, [X, [X + 1]])
    with pytest.raises(InputError, match="input 'pair': expected a tuple of 2 fields, got 1 fields"):
        machine(mod).run((X,))


@pytest.mark.parametrize("flag", [True, False])
def test_only_the_branch_that_is_taken_runs(flag):
    c, x, r = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(2, 3)), relay.var("r")
    written = relay.Let(relay.var("_"), relay.RefWrite(r, relay.negative(x)), relay.const(1.0))
    inside = relay.Let(relay.var("v"), relay.If(c, written, relay.const(0.0)), relay.RefRead(r))
    check(module(c, x, body=relay.Let(r, relay.RefCreate(x), inside)), np.asarray(flag), X)


def test_a_value_that_both_branches_share_is_computed_before_them():
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(2, 3))
    shared = relay.exp(x)
    nested = relay.If(c, relay.add(shared, shared), relay.If(c, x, relay.negative(shared)))
    mod = module(c, x, body=relay.add(nested, x))
    check(mod, np.asarray(True), X)
    check(mod, np.asarray(False), X)


def test_a_loop_of_100000_rounds_needs_neither_stack_nor_memory():
    loop, i, total = relay.GlobalVar("loop"), relay.var("i", INT), relay.var("total", INT)
    again = relay.Call(loop, [relay.subtract(i, relay.const(1)), relay.add(total, i)])
    body = relay.If(relay.greater(i, relay.const(0)), again, total)
    mod = relay.IRModule({loop: relay.Function([i, total], body, INT)})
    n = relay.var("n", INT)
    mod["main"] = relay.Function([n], relay.Call(loop, [n, relay.const(0)]))
    assert machine(mod).run(10_000).numpy() == 10_000 * 10_001 // 2
    text = compile_module(mod).bytecode
    call = text.index("invoke $")
    assert text[call:].splitlines()[1].endswith(f"# ret ${text[call:].split()[1][1:]}")  # a tail call


def test_calls_nest_20000_deep():
    down, n = relay.GlobalVar("down"), relay.var("n", INT)
    again = relay.add(relay.Call(down, [relay.subtract(n, relay.const(1))]), relay.const(2))
    mod = relay.IRModule({down: relay.Function([n], relay.If(relay.less(n, relay.const(1)), n, again), INT)})
    start = relay.var("start", INT)
    mod["main"] = relay.Function([start], relay.Call(down, [start]))
    assert machine(mod).run(np.int32(20_000)).numpy() == 40_000


def test_two_functions_call_each_other():
    even, odd, n = relay.GlobalVar("even"), relay.GlobalVar("odd"), relay.var("n", INT)
    bool_type = relay.TensorType((), "bool")

    def parity(of_zero, other):
        m = relay.var("m", INT)
        done = relay.equal(m, relay.const(0))
        call = relay.Call(other, [relay.subtract(m, relay.const(1))])
        return relay.Function([m], relay.If(done, relay.const(of_zero), call), bool_type)

    mod = relay.IRModule({even: parity(True, odd), odd: parity(False, even)})
    mod["main"] = relay.Function([n], relay.Call(even, [n]))
    vm = machine(mod)
    assert [bool(vm.run(np.int32(k)).numpy()) for k in range(4)] == [True, False, True, False]


def test_a_closure_captures_what_it_uses_at_any_depth():
    a, b, c = (relay.var(name, FLOAT) for name in "abc")
    inner = relay.Function([c], relay.add(relay.multiply(a, b), c))
    outer = relay.Function([b], relay.Call(inner, [relay.exp(a)]))
    maker = relay.Function([a], outer)
    body = relay.Call(relay.Call(maker, [relay.const(2.0)]), [relay.const(3.0)])
    assert check(module(body=body)) == pytest.approx(6 + np.exp(2), rel=1e-6)


def test_a_local_function_calls_itself_and_others_that_it_made():
    f, n, k, g = relay.var("f"), relay.var("n", INT), relay.var("k", INT), relay.var("g")
    again = relay.Call(g, [relay.Call(f, [relay.subtract(n, relay.const(1))])])
    step = relay.Let(g, relay.Function([k], relay.add(k, n)), again)
    func = relay.Function([n], relay.If(relay.less(n, relay.const(1)), n, step), INT)
    start = relay.var("start", INT)
    mod = module(start, body=relay.Let(f, func, relay.Call(f, [start])))
    assert check(mod, np.int32(10)) == 55


def test_functions_go_through_tuples_and_globals_are_values():
    twice, x, f = relay.GlobalVar("twice"), relay.var("x", FLOAT), relay.var("f", relay.FuncType([FLOAT], FLOAT))
    mod = relay.IRModule({twice: relay.Function([f], relay.Call(f, [relay.Call(f, [relay.const(3.0)])]), FLOAT)})
    square = relay.GlobalVar("square")
    mod[square] = relay.Function([x], relay.multiply(x, x), FLOAT)
    pair = relay.Tuple([square, relay.const(1.0)])
    mod["main"] = relay.Function([], relay.Call(twice, [relay.TupleGetItem(pair, 0)]))
    assert check(mod) == 81


def test_references_are_read_and_written_in_order():
    r, before, x = relay.var("r"), relay.var("before"), relay.var("x", shape=(2, 3))
    body = relay.Tuple([before, relay.RefRead(r)])
    body = relay.Let(before, relay.RefRead(r), relay.Let(relay.var("_"), relay.RefWrite(r, relay.negative(x)), body))
    check(module(x, body=relay.Let(r, relay.RefCreate(x), body)), X)


def test_lists_are_built_matched_and_mapped():
    lists = Lists()
    name, x = lists.map_function(), relay.var("x", INT)
    double = relay.Function([x], relay.multiply(x, relay.const(2)))
    vm = machine(lists.main(relay.Call(name, [double, lists.of(1, 2, 3)])))
    result = vm.run()
    assert isinstance(result, ADT) and result.tag == lists.cons.tag and items(result) == [2, 4, 6]
    assert vm.get_outputs()[0].numpy() == 2


def test_a_list_of_10000_cells_goes_in_and_out():
    lists = Lists()
    name, x, xs = lists.map_function(), relay.var("x", INT), relay.var("xs", lists.type(INT))
    mod = lists.main(relay.Call(name, [relay.Function([x], relay.add(x, relay.const(1))), xs]), xs)
    given = ADT(lists.nil.tag)
    for k in reversed(range(10_000)):
        given = ADT(lists.cons.tag, [np.int32(k), given])
    assert items(machine(mod).run(given)) == list(range(1, 10_001))


def test_nested_patterns_take_the_first_clause_that_fits():
    lists = Lists()
    x, y = relay.var("x"), relay.var("y")
    second = relay.PatternConstructor(lists.cons, [relay.PatternVar(y), relay.PatternWildcard()])
    two = relay.PatternConstructor(lists.cons, [relay.PatternVar(x), second])
    clauses = [relay.Clause(two, relay.subtract(x, y)), relay.Clause(relay.PatternWildcard(), relay.const(-9))]
    xs = relay.var("xs", lists.type(INT))
    lists.mod["main"] = relay.Function([xs], relay.add(relay.Match(xs, clauses), relay.const(0)))
    vm = machine(lists.mod)
    nil = ADT(lists.nil.tag)
    one = ADT(lists.cons.tag, [5, nil])
    assert [int(vm.run(v).numpy()) for v in (nil, one, ADT(lists.cons.tag, [7, one]))] == [-9, -9, 2]


def test_a_match_that_nothing_fits_stops_with_a_sentence():
    lists = Lists()
    clauses = [relay.Clause(relay.PatternConstructor(lists.nil), relay.const(0))]
    vm = machine(lists.main(relay.Match(lists.of(1), clauses, complete=False)))
    with pytest.raises(UserError, match="no clause of a match fits its value"):
        vm.run()


def test_a_constructor_is_a_function_like_any_other():
    lists = Lists()
    f = relay.var("f", relay.FuncType([INT, lists.type(INT)], lists.type(INT)))
    x, y = relay.var("x", INT), relay.var("y", lists.type(INT))
    make = relay.Function([f], relay.Call(f, [relay.const(7), lists.nil()]))
    body = relay.Call(make, [relay.Function([x, y], lists.cons(x, y))])
    assert items(machine(lists.main(body)).run()) == [7]


def test_sizes_may_differ_from_run_to_run():
    x = relay.var("x", shape=(relay.Any(), 3))
    vm = machine(module(x, body=relay.concatenate([relay.exp(x), x], axis=0)))
    for rows in (1, 4):
        data = np.ones((rows, 3), "float32")
        np.testing.assert_allclose(vm.run(data).numpy(), np.concatenate([np.exp(data), data]), rtol=1e-6)


def test_a_result_whose_size_depends_on_data_is_returned():
    x = relay.var("x", shape=(4,), dtype="bool")
    found = machine(module(x, body=relay.argwhere(x))).run(np.array([True, False, True, True]))
    np.testing.assert_array_equal(found.numpy(), [[0], [2], [3]])


def test_a_loop_grows_a_tensor():
    grow, i, data = relay.GlobalVar("grow"), relay.var("i", INT), relay.var("data", shape=(relay.Any(), 1))
    more = relay.concatenate([data, relay.reshape(relay.cast(i, "float32"), (1, 1))], axis=0)
    again = relay.Call(grow, [relay.subtract(i, relay.const(1)), more])
    ret = relay.TensorType((relay.Any(), 1))
    mod = relay.IRModule({grow: relay.Function([i, data], relay.If(relay.equal(i, relay.const(0)), data, again), ret)})
    start = relay.var("start", shape=(1, 1))
    mod["main"] = relay.Function([start], relay.Call(grow, [relay.const(3), start]))
    np.testing.assert_array_equal(machine(mod).run(np.zeros((1, 1), "float32")).numpy(), [[0], [3], [2], [1]])


def test_a_reshape_is_an_instruction_that_moves_nothing():
    x = relay.var("x", shape=(8, 16))
    executable = compile_module(module(x, body=relay.reshape(relay.reshape(x, (-1, 4, 8)), (4, -1))))
    data = np.arange(128, dtype="float32").reshape(8, 16)
    result = VirtualMachine(executable, cpu()).run(data).numpy()
    assert executable.bytecode.count("reshape_tensor") == 1 and executable.primitive_ops == []
    assert result.shape == (4, 32) and np.shares_memory(result, data)


def test_a_reshape_to_a_shape_that_is_data_is_one_too():
    x, shape = relay.var("x", shape=(8, 16)), relay.var("shape", shape=(3,), dtype="int32")
    executable = compile_module(module(x, shape, body=relay.reshape(x, shape)))
    data = np.arange(128, dtype="float32").reshape(8, 16)
    result = VirtualMachine(executable, cpu()).run(data, np.array([8, 2, 8], "int32"))
    assert executable.bytecode.count("reshape_tensor") == 1
    np.testing.assert_array_equal(result.numpy(), data.reshape(8, 2, 8))


def test_functions_that_main_does_not_need_are_not_compiled():
    x = relay.var("x", shape=(2, 3))
    mod = relay.IRModule({relay.GlobalVar("unused"): relay.Function([x], relay.negative(x))})
    mod["main"] = relay.Function([x], relay.exp(x))
    assert compile_module(mod).globals == ["main"]


def test_any_function_of_the_executable_can_be_invoked():
    helper, x, y = relay.GlobalVar("helper"), relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    mod = relay.IRModule({helper: relay.Function([x], relay.negative(x))})
    mod["main"] = relay.Function([y], relay.Call(helper, [relay.exp(y)]))
    vm = machine(mod)
    np.testing.assert_array_equal(vm.invoke("helper", X).numpy(), -X)
    with pytest.raises(UserError, match="cannot find function 'other' in the executable; it has helper, main"):
        vm.invoke("other", X)


def test_inputs_are_set_in_every_way_and_stay():
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    vm = machine(module(x, y, body=relay.subtract(x, y)))
    vm.set_input("main", X, 2 * X)
    np.testing.assert_array_equal(vm.invoke("main").numpy(), -X)
    vm.set_one_input("main", "y", X)
    np.testing.assert_array_equal(vm.run().numpy(), 0 * X)
    vm.set_one_input("main", 0, 3 * X)
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs()[0].numpy(), 2 * X)
    np.testing.assert_array_equal(vm.run(y=X, x=4 * X, other=1).numpy(), 3 * X)
    np.testing.assert_array_equal(vm.run(X, y=NDArray(X)).numpy(), 0 * X)
    place = NDArray(np.empty_like(X))
    vm.invoke_with_outputs("main", {"x": X, "y": -X}, [place])
    np.testing.assert_array_equal(place.numpy(), 2 * X)
    assert (vm.get_input_index("y"), vm.get_input_index("z")) == (1, -1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda vm: vm.run(X), r"takes 2 inputs \(x, y\), got 1 in order and 0 by name"),
        (lambda vm: vm.run(X, X, X), "got 3 in order"),
        (lambda vm: vm.invoke("main"), "input 'x', 'y' of main is not set"),
        (lambda vm: vm.run(X, X.astype("float64")), "expected dtype float32, got float64"),
        (lambda vm: vm.run(X, X[:1]), r"input 'y': expected shape \[2, 3\], got \[1, 3\]"),
        (lambda vm: vm.run(X, ADT(0, [])), "expected a tensor, got a ADT"),
        (lambda vm: vm.set_one_input("main", "z", X), "has no input 'z'"),
        (lambda vm: vm.set_one_input("main", 2, X), "has no input 2"),
    ],
)
def test_wrong_inputs_are_explained(call, words):
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    with pytest.raises(InputError, match=words):
        call(machine(module(x, y, body=relay.subtract(x, y))))


def test_a_free_variable_is_named():
    x = relay.var("x", shape=(2, 3))
    mod = relay.IRModule({"main": relay.Function([], relay.negative(x))})
    with pytest.raises(CompileError, match="variable %x has no value where it is used"):
        compile_module(mod)


def test_python_numbers_take_the_dtype_of_the_parameter():
    a, b = relay.var("a", FLOAT), relay.var("b", shape=(2,), dtype="int64")
    result = machine(module(a, b, body=relay.Tuple([a, b]))).run(3, [1, 2])
    assert (result[0].dtype, result[1].dtype) == ("float32", "int64")


def test_a_benchmark_gives_one_time_for_each_repetition():
    x = relay.var("x", shape=(2, 3))
    vm = machine(module(x, body=relay.exp(x)))
    for whole in (False, True):
        result = vm.benchmark(cpu(), X, repeat=3, number=2, end_to_end=whole)
        assert len(result.results) == 3 and 0 < result.min <= result.median <= result.max
    assert "mean (ms)" in str(result)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda exe: VirtualMachine(7, cpu()), TypeError),
        (lambda exe: VirtualMachine(exe, "cpu"), TypeError),
        (lambda exe: VirtualMachine(exe, cpu(), 7), TypeError),
        (lambda exe: VirtualMachine(exe, cpu(), "lazy"), UserError),
    ],
)
def test_what_is_no_executable_device_or_allocator_is_refused(make, error):
    x = relay.var("x", shape=(2, 3))
    executable = compile_module(module(x, body=x))
    VirtualMachine(executable.mod, [cpu()], {cpu(): "naive"})
    with pytest.raises(error):
        make(executable)


def test_marks_of_devices_cost_nothing():
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(2, 3))
    marked = relay.annotation.on_device(relay.exp(x), cpu())
    executable = compile_module(module(c, x, body=relay.If(c, marked, x)))
    assert executable.primitive_ops == ["vm_mod_fused_exp"]


def test_3000_nested_lets_branches_and_calls_are_compiled():
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", FLOAT)
    names = [relay.var(f"v{k}") for k in range(3000)]
    lets = names[-1]
    for k in reversed(range(3000)):
        lets = relay.Let(names[k], relay.negative(names[k - 1] if k else x), lets)
    branches = x
    for _ in range(3000):
        branches = relay.If(c, relay.add(branches, relay.const(1.0)), x)
    vm = machine(module(c, x, body=relay.Tuple([relay.If(c, lets, x), branches])))
    first, second = vm.run(True, np.float32(2))
    assert (first.numpy(), second.numpy()) == (2, 3002)


@pytest.mark.parametrize("attrs", [{"Composite": "acme.exp"}, {"Primitive": 1}])
def test_a_function_of_a_pattern_is_a_value_too(attrs):
    f, p, x = relay.var("f"), relay.var("p", shape=(2, 3)), relay.var("x", shape=(2, 3))
    c = relay.var("c", shape=(), dtype="bool")
    unit = relay.Function([p], relay.exp(relay.negative(p)), attrs=attrs)
    chosen = relay.If(c, f, relay.Function([p], relay.negative(p)))
    mod = module(c, x, body=relay.Let(f, unit, relay.Call(chosen, [x])))
    check(mod, np.asarray(True), X)
    check(mod, np.asarray(False), X)
    assert compile_module(mod).primitive_ops[0] == "vm_mod_fused_negative_exp"
