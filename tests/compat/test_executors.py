"""Executors, builds and machines under TVM's names, as code written for Relay uses them."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

pytestmark = pytest.mark.needs_cc
X = np.arange(6, dtype="float32").reshape(2, 3)
KINDS = ["graph", "vm", "debug", "aot"]


@pytest.fixture
def subtract(tvm, relay):
    """``x - y``."""
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    return tvm.IRModule.from_expr(relay.Function([x, y], relay.subtract(x, y)))


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_are_given_in_order_or_by_name(tvm, relay, subtract, kind):
    run = relay.create_executor(kind, mod=subtract, device=tvm.cpu(0), target="llvm").evaluate()
    for result in (run(3 * X, X), run(3 * X, y=X), run(x=tvm.nd.array(3 * X), y=X), run(y=X, x=3 * X)):
        assert isinstance(result, tvm.nd.NDArray)
        np.testing.assert_array_equal(result.numpy(), 2 * X)
    for args, names, words in (
        ((X,), {}, "insufficient arguments, expected 2, provided 1"),
        ((X, X, X), {}, "insufficient arguments, expected 2, provided 3"),
        ((X, X), {"y": X}, "duplicate argument supplied in both positional args .at position: 1."),
        ((X,), {"z": X}, "there is no 'z'"),
    ):
        with pytest.raises(tvm.TVMError, match=words):
            run(*args, **names)


@pytest.mark.parametrize("kind", KINDS)
def test_tuples_keep_their_nesting(tvm, relay, kind):
    x, y, z, w = [relay.var(c, shape=(2, 3)) for c in "xyzw"]
    out = relay.Tuple([x, relay.Tuple([y, relay.Tuple([z, w])])])
    mod = tvm.IRModule.from_expr(relay.Function([x, y, z, w], out))
    result = relay.create_executor(kind, mod, tvm.cpu(), "llvm").evaluate()(X, 2 * X, 3 * X, 4 * X)
    assert isinstance(result, list if kind in ("graph", "aot") else tvm.runtime.container.ADT)
    assert len(result) == 2 and len(result[1]) == 2 and len(result[1][1]) == 2
    for factor, value in enumerate([result[0], result[1][0], *result[1][1]], 1):
        np.testing.assert_array_equal(value.numpy(), factor * X)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tuple_is_an_argument(tvm, relay, kind):
    t = relay.var("t", relay.TupleType([relay.TensorType((2, 3)), relay.TensorType((2, 3))]))
    body = relay.subtract(relay.TupleGetItem(t, 0), relay.TupleGetItem(t, 1))
    mod = tvm.IRModule.from_expr(relay.Function([t], body))
    run = relay.create_executor(kind, mod).evaluate()
    np.testing.assert_array_equal(run((3 * X, X)).numpy(), 2 * X)


@pytest.mark.parametrize("kind", KINDS)
def test_functions_names_and_closed_expressions_are_evaluated(tvm, relay, subtract, kind):
    executor = relay.create_executor(kind, mod=subtract)
    a = relay.var("a", shape=(2, 3))
    np.testing.assert_array_equal(executor.evaluate(relay.Function([a], relay.negative(a)))(X).numpy(), -X)
    np.testing.assert_array_equal(executor.evaluate(subtract.get_global_var("main"))(X, X).numpy(), 0 * X)
    assert executor.evaluate(relay.add(relay.const(1.0), relay.const(2.0))).numpy() == 3
    assert executor.evaluate(relay.add(relay.const(1.0), a), {a: relay.const(X)}).numpy()[1, 2] == 6
    with pytest.raises(tvm.TVMError, match="%a is free"):
        executor.evaluate(relay.negative(a))


def test_parameters_are_bound_by_the_executor(tvm, relay, subtract):
    run = relay.create_executor("vm", subtract, tvm.cpu(), "llvm", {"y": X}).evaluate()
    np.testing.assert_array_equal(run(3 * X).numpy(), 2 * X)


def test_an_unknown_kind_is_refused(tvm, relay, subtract):
    with pytest.raises(tvm.TVMError, match="unknown execution strategy: nonsense"):
        relay.create_executor("nonsense", subtract)


def test_the_graph_executor_refuses_control_flow_in_a_sentence(tvm, relay):
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(2, 3))
    mod = tvm.IRModule.from_expr(relay.Function([c, x], relay.If(c, relay.negative(x), x)))
    with pytest.raises(tvm.TVMError, match="the graph executor runs no If: compile the module with relay.vm.compile"):
        relay.create_executor("graph", mod).evaluate()
    for kind in ("vm", "debug"):
        np.testing.assert_array_equal(relay.create_executor(kind, mod).evaluate()(np.array(True), X).numpy(), -X)


def test_the_debug_executor_gives_and_takes_algebraic_data(tvm, relay):
    from tvm.relay.backend.interpreter import ConstructorValue, RefValue

    mod = tvm.IRModule()
    box, element = relay.GlobalTypeVar("Box"), relay.TypeVar("a")
    full, empty = relay.Constructor("Full", [element], box), relay.Constructor("Empty", [], box)
    mod[box] = relay.TypeData(box, [element], [full, empty])
    v = relay.var("v", shape=())
    mod["main"] = relay.Function([v], full(v))
    value = relay.create_executor("debug", mod).evaluate()(np.float32(4))
    assert isinstance(value, ConstructorValue) and value.tag == full.tag and value.constructor is full
    assert isinstance(value.fields[0], tvm.nd.NDArray) and value.fields[0].numpy() == 4
    b, inner = relay.var("b", box(relay.TensorType(()))), relay.var("inner")
    clauses = [relay.Clause(relay.PatternConstructor(full, [relay.PatternVar(inner)]), inner)]
    unpack = relay.Function([b], relay.Match(b, clauses, complete=False))
    assert relay.create_executor("debug", mod).evaluate(unpack)(value).numpy() == 4
    found = relay.create_executor("vm", mod).evaluate()(np.float32(4))
    assert isinstance(found, tvm.runtime.container.ADT) and found.tag == full.tag and found[0].numpy() == 4
    reference = relay.create_executor("debug").evaluate(relay.RefCreate(relay.const(2.0)))
    assert isinstance(reference, RefValue) and reference.value.numpy() == 2


def test_a_reference_that_was_given_is_the_one_that_is_read_and_written(tvm, relay):
    from tvm.relay.backend.interpreter import RefValue

    cell = relay.Var("cell", relay.RefType(relay.TensorType((2, 3))))
    given = RefValue(tvm.nd.array(X))
    debug = relay.create_executor("debug")
    assert debug.evaluate(relay.Function([cell], cell))(given).value.numpy().tolist() == X.tolist()
    assert given.value.numpy().tolist() == X.tolist()
    debug.evaluate(relay.Function([cell], relay.RefWrite(cell, relay.negative(relay.RefRead(cell)))))(given)
    np.testing.assert_array_equal(given.value.numpy(), -X)


def test_the_debug_executor_gives_numbers_the_declared_type_and_binds_arrays(tvm, relay):
    pair = relay.var("pair", relay.TupleType([relay.TensorType((), "int64")] * 2))
    second = relay.create_executor("debug").evaluate(relay.Function([pair], relay.TupleGetItem(pair, 1)))((10, 8))
    assert second.dtype == "int64" and second.numpy() == 8
    x = relay.var("x")
    bound = relay.create_executor("debug").evaluate(relay.add(x, x), binds={x: X})
    np.testing.assert_array_equal(bound.numpy(), X + X)
    assert tvm.container.Map is tvm.ir.container.Map


def test_astype_is_a_cast(tvm, relay):
    call = relay.var("x", shape=(2, 3)).astype("int32")
    assert call.op == relay.op.get("cast") and call.attrs.dtype == "int32"


def test_a_build_unpacks_and_its_parts_make_an_executor(tvm, relay, subtract):
    from tvm.contrib import graph_executor

    graph, lib, params = relay.build(subtract, "llvm", params={"y": tvm.nd.array(X)})
    assert isinstance(graph, str) and isinstance(lib, tvm.runtime.Module) and params == {}
    module = graph_executor.create(graph, lib, tvm.cpu(0))
    module.set_input(**params)
    module.set_input(x=3 * X)
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), 2 * X)
    with pytest.raises(tvm.TVMError, match="takes a graph as JSON text"):
        graph_executor.create(7, lib, tvm.cpu())


def test_a_factory_has_its_parts_by_name(tvm, relay, subtract):
    from tvm.relay.backend.executor_factory import AOTExecutorFactoryModule, GraphExecutorFactoryModule

    built = relay.build(subtract, "llvm", mod_name="acme")
    assert isinstance(built, GraphExecutorFactoryModule) and built.libmod_name == "acme"
    assert built.get_graph_json() == built.graph_json == built.get_executor_config() == built["get_graph_json"]()
    assert built.get_params() == {} and built.executor.name == "graph" and built.ir_mod["main"] is not None
    assert list(built["list_module_names"]()) == ["acme"]
    for name in ("default", "acme"):
        assert built[name](tvm.cpu(0))["get_num_outputs"]() == 1
    with pytest.raises(tvm.TVMError, match="no function 'other'"):
        built["other"]
    ahead = relay.build(subtract, "c", executor=relay.backend.Executor("aot", {"interface-api": "c"}))
    assert isinstance(ahead, AOTExecutorFactoryModule) and ahead.get_executor_config() is None


def test_an_exported_library_keeps_the_name_of_its_module(tvm, relay, subtract, tmp_path):
    from tvm.runtime.executor import AotModule

    built = relay.build(subtract, "llvm", executor=relay.backend.Executor("aot"), mod_name="acme")
    built.export_library(str(tmp_path / "lib.so"))
    loaded = tvm.runtime.load_module(str(tmp_path / "lib.so"))
    assert isinstance(loaded, tvm.runtime.Module) and loaded.imported_modules[0].type_key == "c"
    module = AotModule(loaded["acme"](tvm.cpu(0)))
    module.set_input(0, 5 * X)
    module.set_input("y", X)
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), 4 * X)
    assert [module.get_input_name(k) for k in range(2)] == ["x", "y"]
    with pytest.raises(tvm.TVMError, match="there is no input 2"):
        module.get_input_name(2)


@pytest.fixture
def runner(tvm, relay, subtract):
    from tvm.contrib import graph_executor

    return graph_executor.GraphModule(relay.build(subtract, "llvm")["default"](tvm.cpu(0)))


def test_inputs_are_copied_when_they_are_set(tvm, runner):
    data = 3 * X
    runner.set_input("x", data)
    runner.set_input(y=X, unknown=X)
    data[:] = 0
    runner.run()
    np.testing.assert_array_equal(runner.get_output(0).numpy(), 2 * X)
    np.testing.assert_array_equal(runner.get_input("x").numpy(), 3 * X)
    assert runner.get_input(0, tvm.nd.empty((2, 3))).numpy()[1, 2] == 15 and runner.get_input("z") is None
    runner.run(x=X)
    assert runner.get_output(0, tvm.nd.empty((2, 3))).numpy().sum() == 0


def test_a_graph_says_what_it_takes_and_gives(tvm, runner):
    assert (runner.get_num_inputs(), runner.get_num_outputs()) == (2, 1)
    assert (runner.get_input_index("y"), runner.get_input_index("z")) == (1, -1)
    shapes, dtypes = runner.get_input_info()
    assert shapes == {"x": (2, 3), "y": (2, 3)} and dtypes["x"] == "float32"
    assert runner.get_input(0).numpy().sum() == 0
    with pytest.raises(tvm.TVMError, match="no input 'z'"):
        runner.set_input("z", X)
    with pytest.raises(tvm.TVMError, match="outputs are numbered from 0 to 0"):
        runner.get_output(1)
    runner.run(x=X)  # what is never set is read as it is, which is zeros
    np.testing.assert_array_equal(runner.get_output(0).numpy(), X)


def test_arrays_can_be_read_and_written_in_place(tvm, runner):
    x, out = tvm.nd.array(3 * X), tvm.nd.empty((2, 3))
    runner.set_input_zero_copy("x", x)
    runner.set_input_zero_copy(y=tvm.nd.array(X))
    runner.set_output_zero_copy(0, out)
    runner.run()
    np.testing.assert_array_equal(out.numpy(), 2 * X)
    x[:] = 9
    runner.run()
    np.testing.assert_array_equal(out.numpy(), 9 - X)


def test_parameters_are_loaded_from_bytes_and_shared(tvm, relay, runner, subtract):
    from tvm.contrib import graph_executor

    data = relay.save_param_dict({"y": tvm.nd.array(X)})
    runner.load_params(data)
    other = graph_executor.GraphModule(relay.build(subtract, "llvm")["default"](tvm.cpu(0)))
    other.share_params(runner, data)
    for module in (runner, other):
        module.run(x=2 * X)
        np.testing.assert_array_equal(module.get_output(0).numpy(), X)


def test_a_graph_is_timed(tvm, runner):
    device = tvm.cpu(0)
    for whole in (False, True):
        result = runner.benchmark(device, repeat=2, number=2, end_to_end=whole, x=X, y=X)
        assert len(result.results) == 2 and result.mean > 0 and result.max >= result.median >= result.min
    times = runner.module.time_evaluator("run", device, number=1, repeat=3)()
    assert len(times.results) == 3
    given = tvm.runtime.module.BenchmarkResult([1, 2, 2, 5])
    with patch.object(tvm.runtime.module.Module, "time_evaluator", return_value=lambda: given) as method:
        assert runner.benchmark(device).mean == 2.5
        assert method.call_args.args[0] == "run"


def test_the_machine_is_timed_through_its_module(tvm, relay, subtract):
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(subtract, "llvm"), tvm.cpu())
    given = tvm.runtime.module.BenchmarkResult([1, 2, 2, 5])
    with patch.object(tvm.runtime.module.Module, "time_evaluator", return_value=lambda name: given):
        assert machine.benchmark(tvm.cpu(), X, X).median == 2
    np.testing.assert_array_equal(machine.module["invoke"]("main", X, X).numpy(), 0 * X)


def test_the_compiler_to_bytecode_goes_step_by_step(tvm, relay, subtract):
    compiler = relay.vm.VMCompiler()
    with pytest.raises(tvm.TVMError, match="call lower"):
        compiler.codegen()
    compiler.set_params({"y": tvm.nd.array(X)})
    assert list(compiler.get_params()) == ["y"]
    optimized, left = compiler.optimize(subtract, "llvm")
    assert [p.name_hint for p in optimized["main"].params] == ["x"] and left == {}
    compiler.lower(subtract, "llvm")
    with pytest.raises(tvm.TVMError, match="there is no executable yet"):
        compiler.get_exec()
    compiler.codegen()
    machine = tvm.runtime.vm.VirtualMachine(compiler.get_exec(), tvm.cpu(0))
    np.testing.assert_array_equal(machine.run(3 * X).numpy(), 2 * X)


def test_an_executable_goes_through_one_file(tvm, relay, subtract, tmp_path):
    relay.vm.compile(subtract, "llvm").mod.export_library(str(tmp_path / "vm.so"))
    machine = tvm.runtime.vm.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "vm.so")), tvm.cpu())
    np.testing.assert_array_equal(machine.run(3 * X, X).numpy(), 2 * X)


def test_a_module_is_optimized_without_being_built(tvm, relay, subtract):
    optimized, params = relay.optimize(subtract, "llvm", {"y": X})
    assert [p.name_hint for p in optimized["main"].params] == ["x"] and params == {}
    module = relay.build_module.BuildModule()
    graph, lib, left = module.build(subtract, "llvm", params={"y": X})
    assert graph == module.get_graph_json() and isinstance(lib, tvm.runtime.Module) and left == module.get_params()
    with pytest.raises(tvm.TVMError, match="nothing is built yet"):
        relay.build_module.BuildModule().get_module()


def test_executors_and_runtimes_check_their_options(tvm, relay):
    from tvm.relay.backend import Executor, Runtime

    assert Executor("aot", {"interface-api": "c"})["interface-api"] == "c" and not Executor("graph")["link-params"]
    assert "woof" not in Executor("aot") and Runtime("crt", {"system-lib": True})["system-lib"] is True
    assert Executor.list_registered_options("aot")["interface-api"] == "runtime.String"
    assert not Runtime("cpp")["system-lib"] and Runtime("crt") == Runtime("crt") != Runtime("cpp")
    for make, words in (
        (lambda: Executor("woof"), 'Executor "woof" is not defined'),
        (lambda: Runtime.list_registered_options("woof"), 'Runtime "woof" is not defined'),
        (lambda: Executor("aot", {"woof": "bark"}), 'Attribute "woof" is not available on this Executor'),
        (lambda: Executor("aot", {"interface-api": True}), 'should have type "runtime.String" but instead found'),
    ):
        with pytest.raises(tvm.TVMError, match=words):
            make()


@pytest.mark.parametrize("executor", ["graph", "vm"])
def test_a_function_of_another_compiler_that_stands_in_main_goes_to_it(tvm, relay, tmp_path, executor):
    from tvm.contrib import graph_executor

    seen = []

    @tvm.register_func("relay.ext.acme_inline")
    def compile_region(function):
        seen.append(str(function.attrs["global_symbol"]))
        return tvm.get_global_func("relay.ext.ccompiler")(function)

    p, q = relay.var("p", shape=(2, 3)), relay.var("q", shape=(2, 3))
    inner = relay.Function([p, q], relay.subtract(relay.add(p, q), q))
    for key, value in {"Primitive": tvm.tir.IntImm("int32", 1), "Compiler": "acme_inline"}.items():
        inner = inner.with_attr(key, value)
    inner = inner.with_attr("global_symbol", "acme_inline_0")
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x, y], relay.multiply(relay.Call(inner, [x, y]), y)))
    path = str(tmp_path / "lib.so")
    if executor == "vm":
        relay.vm.compile(mod, "llvm").mod.export_library(path)
        found = tvm.runtime.vm.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu()).run(X, 2 * X)
    else:
        relay.build(mod, "llvm").export_library(path)
        module = graph_executor.GraphModule(tvm.runtime.load_module(path)["default"](tvm.cpu()))
        module.run(x=X, y=2 * X)
        found = module.get_output(0)
    assert seen == ["acme_inline_0"]
    np.testing.assert_allclose(found.numpy(), 2 * X * X, rtol=1e-6)


def test_a_graph_is_timed_node_by_node(tvm, relay):
    from tvm.contrib.debugger import debug_executor

    x = relay.var("x", shape=(2, 3))
    built = relay.build(relay.Function([x], relay.nn.softmax(relay.cumsum(x, 1))), "llvm")
    module = debug_executor.create(built.get_graph_json(), built.get_lib(), tvm.cpu(0))
    module.set_input("x", X)
    times = module.run_individual(number=2, repeat=3)
    assert len(times) == 2 and all(len(row) == 3 and min(row) >= 0 for row in times)
    assert module.run_individual_node(0) == [] and len(module.run_individual_node(1, repeat=2)) == 2
    expected = np.exp(np.cumsum(X, 1)) / np.exp(np.cumsum(X, 1)).sum(1, keepdims=True)
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-5)
    made = built["debug_create"]("default", tvm.cpu(0))
    again = debug_executor.GraphModuleDebug(made, tvm.cpu(0), built.get_graph_json(), None)
    again.run(x=X)
    np.testing.assert_array_equal(again.get_output(0).numpy(), module.get_output(0).numpy())


@pytest.mark.parametrize("name", ["build", "vm"])
def test_a_target_without_code_is_refused(tvm, relay, subtract, name):
    with pytest.raises(tvm.TVMError, match="generates no code for the target 'cuda'"):
        relay.build(subtract, "cuda") if name == "build" else relay.vm.compile(subtract, "cuda")
