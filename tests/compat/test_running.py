"""Running under Relay's names: inputs are converted, left out, or of another shape; byoc's own names stay strict."""

import json

import numpy as np
import pytest

from byoc.errors import InputError

pytestmark = pytest.mark.needs_cc
X = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.fixture
def graph_module(tvm, relay):
    """Makes the executor of a function."""
    from tvm.contrib import graph_executor

    def make(params, body):
        built = relay.build(tvm.IRModule.from_expr(relay.Function(params, body)), "llvm")
        return graph_executor.GraphModule(built["default"](tvm.cpu()))

    return make


@pytest.mark.parametrize("given", [X.astype("int32"), X.astype("float64"), X.tolist(), X[:, ::-1][:, ::-1]])
def test_a_graph_takes_arrays_and_numbers_in_the_dtype_of_the_parameter(tvm, relay, graph_module, given):
    x = relay.var("x", shape=(2, 3))
    made = graph_module([x], x + x)
    made.run(x=given)
    np.testing.assert_array_equal(made.get_output(0).numpy(), 2 * X)
    for kind in ("graph", "aot"):
        run = relay.create_executor(kind, tvm.IRModule.from_expr(relay.Function([x], x + x)), tvm.cpu(), "llvm")
        np.testing.assert_array_equal(run.evaluate()(given).numpy(), 2 * X)


def test_a_number_takes_the_dtype_of_a_scalar_parameter(tvm, relay, graph_module):
    for dtype in ("float16", "float64", "int8", "bool"):
        x = relay.var("x", shape=(), dtype=dtype)
        made = graph_module([x], relay.copy(x))
        made.set_input("x", 1.0)
        made.run()
        assert made.get_output(0).dtype == dtype and made.get_output(0).numpy() == 1


def test_the_bytes_of_an_ndarray_are_taken_as_they_are(tvm, relay, graph_module):
    x = relay.var("x", shape=(2,), dtype="float32")
    made = graph_module([x], relay.copy(x))
    made.run(x=tvm.nd.array(np.array([1.0, 2.0], "float32").view("int32")))
    np.testing.assert_array_equal(made.get_output(0).numpy(), [1, 2])
    with pytest.raises(tvm.TVMError, match="the bytes of float64"):
        made.set_input("x", tvm.nd.array(np.zeros(2, "float64")))
    with pytest.raises(tvm.TVMError, match=r"expected shape \[2\], got \[3\]"):
        made.set_input("x", np.zeros(3))
    with pytest.raises(tvm.TVMError, match="Could not find 'y' in graph's inputs"):
        made.set_input("y", np.zeros(2))


def test_an_input_that_was_never_set_is_read_as_it_is(tvm, relay, graph_module):
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    made = graph_module([x, y], x - y)
    made.run(x=X)
    np.testing.assert_array_equal(made.get_output(0).numpy(), X)
    made.get_input("y").copyfrom(X)  # the input itself: the next run reads what is written to it
    made.run()
    assert not made.get_output(0).numpy().any()


def test_the_functions_of_the_module_are_as_lax(tvm, relay):
    x = relay.var("x", shape=(2, 3))
    module = relay.build(tvm.IRModule.from_expr(relay.Function([x], x + x)), "llvm")["default"](tvm.cpu())
    module["run"]()
    assert not module["get_output"](0).numpy().any()
    module["set_input"]("x", X.astype("int64"))
    module["run"]()
    np.testing.assert_array_equal(module["get_output"](0).numpy(), 2 * X)
    (found,) = module["run_from_inputs"](1, 0, "x", X.astype("int8"))
    np.testing.assert_array_equal(found.numpy(), 2 * X)


def test_the_library_behind_it_is_strict(tvm, relay, tmp_path):
    import byoc.runtime

    x = relay.var("x", shape=(2, 3))
    built = relay.build(tvm.IRModule.from_expr(relay.Function([x], x + x)), "llvm")
    built.export_library(tmp_path / "m.byoc")
    for library in (built.library, byoc.runtime.load(tmp_path / "m.byoc")):
        with pytest.raises(InputError, match="expected dtype float32, got int32"):
            library.run({"x": X.astype("int32")})
        executor = library.graph_executor()
        with pytest.raises(InputError, match="input 'x' is missing"):
            executor.run()


def test_an_executor_says_its_inputs_in_containers_of_tvm(tvm, relay, graph_module):
    x = relay.var("x", shape=(2, 3), dtype="int8")
    shapes, dtypes = graph_module([x], relay.copy(x)).get_input_info()
    assert isinstance(shapes["x"], tvm.runtime.container.ShapeTuple) and tuple(shapes["x"]) == (2, 3)
    assert isinstance(dtypes["x"], tvm.runtime.container.String) and dtypes["x"] == "int8"


def test_a_graph_says_which_values_share_memory(tvm, relay):
    x = relay.var("x", shape=(4, 6))
    first = relay.reshape(relay.nn.relu(x), (24,))
    again = relay.exp(relay.nn.relu(x))
    out = relay.Tuple([first, relay.reshape(again, (3, 8)), relay.tanh(again)])
    graph = json.loads(relay.build(tvm.IRModule.from_expr(relay.Function([x], out)), "llvm").get_graph_json())
    ids, nodes = graph["attrs"]["storage_id"][1], graph["nodes"]
    views = [k for k, node in enumerate(nodes) if node.get("attrs", {}).get("func_name") == "__nop"]
    assert len(views) == 2 and len(ids) == len(nodes)
    assert all(ids[k] == ids[nodes[k]["inputs"][0][0]] for k in views)
    heads = [head[0] for head in graph["heads"]]
    assert len({ids[h] for h in heads}) == 3, "outputs are alive together"


def test_memory_of_a_value_that_nobody_reads_any_more_is_taken_again(tvm, relay):
    x = relay.var("x", shape=(8, 8))
    value = x
    for _ in range(4):
        value = relay.annotation.stop_fusion(relay.tanh(value))
    graph = json.loads(relay.build(tvm.IRModule.from_expr(relay.Function([x], value)), "llvm").get_graph_json())
    assert len(set(graph["attrs"]["storage_id"][1])) == 3, "an input, and two that alternate"


def machine(tvm, relay, params, body):
    made = relay.vm.compile(tvm.IRModule.from_expr(relay.Function(params, body)), "llvm")
    return tvm.runtime.vm.VirtualMachine(made, tvm.cpu())


def test_the_machine_does_not_check_the_shapes_of_inputs(tvm, relay):
    x = relay.var("x", shape=(2, 3))
    given = np.ones((3, 5), "float32")
    np.testing.assert_array_equal(machine(tvm, relay, [x], x).run(given).numpy(), given)
    found = machine(tvm, relay, [x], relay.reshape(x, (-1,))).run(X.T)
    np.testing.assert_array_equal(found.numpy(), X.T.reshape(-1))
    run = relay.create_executor("vm", tvm.IRModule.from_expr(relay.Function([x], x))).evaluate()
    np.testing.assert_array_equal(run(given).numpy(), given)


def test_what_does_not_fit_is_found_by_the_function_that_is_called(tvm, relay):
    x = relay.var("x", shape=(2, 3))
    with pytest.raises(tvm.TVMError, match=r"expected shape \[2, 3\], got \[3, 5\]"):
        machine(tvm, relay, [x], relay.tanh(x)).run(np.ones((3, 5), "float32"))


def test_a_list_of_one_tensor_stands_for_the_tensor(tvm, relay):
    x = relay.var("x", shape=(2, 3))
    for given in ([X], (tvm.nd.array(X),), tvm.runtime.container.tuple_object([tvm.nd.array(X)])):
        np.testing.assert_array_equal(machine(tvm, relay, [x], relay.negative(x)).run(given).numpy(), -X)


def test_a_program_that_byoc_compiled_checks_its_inputs_and_says_so_in_its_bytes(tvm, relay):
    from byoc.driver.vm import compile_module
    from byoc.runtime.vm import Executable, VirtualMachine

    x = relay.var("x", shape=(2, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x], x))
    given = np.ones((3, 5), "float32")
    for made in (compile_module(mod), Executable.load_exec(*compile_module(mod).save())):
        with pytest.raises(InputError, match="expected shape"):
            VirtualMachine(made, tvm.cpu()).run(given)
    loaded = Executable.load_exec(*relay.vm.compile(mod, "llvm").save())
    np.testing.assert_array_equal(VirtualMachine(loaded, tvm.cpu()).run(given).numpy(), given)


def test_constants_are_bound_late_to_a_loaded_program(tvm, relay, tmp_path):
    from tvm import runtime

    x, weights = relay.var("x", shape=(8, 8)), np.ones((8, 8), "float32")
    made = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], x + relay.const(weights))), "llvm")
    given = made.get_late_bound_consts(8)
    assert [value.shape for value in given.values()] == [(8, 8)]
    made.load_late_bound_consts_from_map(given)
    made.move_late_bound_consts(tmp_path / "consts", byte_limit=8)
    made.mod.export_library(tmp_path / "lib.so")
    loaded = runtime.load_module(tmp_path / "lib.so")
    loaded["load_late_bound_consts"](str(tmp_path / "consts"))
    again = runtime.load_module(tmp_path / "lib.so")
    wrapped = runtime.vm.Executable(again)
    with pytest.raises(tvm.TVMError, match="was moved out"):
        runtime.vm.VirtualMachine(wrapped, tvm.cpu()).run(weights)
    wrapped.load_late_bound_consts(tmp_path / "consts")
    third = runtime.load_module(tmp_path / "lib.so")
    third["load_late_bound_consts_from_map"](given)
    for exe in (loaded, again, wrapped, third):
        np.testing.assert_array_equal(runtime.vm.VirtualMachine(exe, tvm.cpu()).invoke("main", weights).numpy(), 2)
    with pytest.raises(TypeError, match="a module of an executable is expected"):
        runtime.vm.Executable(made.lib)


@pytest.mark.parametrize("kind", ["graph", "vm", "debug"])
def test_short_floats_are_summed_in_float32(tvm, relay, kind):
    data = np.concatenate([np.full(4096, 9.0), np.full(4096, 11.0)]).astype("float16").reshape(1, -1)
    x = relay.var("x", shape=data.shape, dtype="float16")
    for op, want in ((relay.mean, 10), (relay.variance, 1), (relay.std, 1)):
        mod = tvm.IRModule.from_expr(relay.Function([x], op(x, axis=1)))
        assert relay.create_executor(kind, mod).evaluate()(data).numpy() == want


def test_lrn_of_short_floats_rounds_each_step(tvm, relay):
    data = np.random.default_rng(0).uniform(-4, 4, (1, 6, 3, 3)).astype("float16")
    x = relay.var("x", shape=data.shape, dtype="float16")
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.lrn(x, size=3, bias=1.0, alpha=0.5, beta=0.75)))
    half = np.float16
    padded = np.pad(data, ((0, 0), (1, 1), (0, 0), (0, 0)))
    squares = padded * padded
    total = (squares[:, :6] + squares[:, 1:7]) + squares[:, 2:8]
    want = data / np.power(half(1) + half(0.5) * total / half(3), half(0.75))
    assert want.dtype == half
    for kind in ("graph", "vm", "debug"):
        np.testing.assert_array_equal(relay.create_executor(kind, mod).evaluate()(data).numpy(), want)


@pytest.mark.parametrize(
    "op,arguments",
    [
        ("avg_pool1d", ((2,),)),
        ("avg_pool2d", ((2, 2),)),
        ("avg_pool3d", ((2, 2, 2),)),
        ("global_avg_pool2d", ()),
        ("adaptive_avg_pool1d", (1,)),
        ("adaptive_avg_pool2d", (1,)),
        ("adaptive_avg_pool3d", (1,)),
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "int8"])
def test_means_of_integers_are_rounded_toward_zero(tvm, relay, op, arguments, dtype):
    rank = 2 if op.startswith("global") else int(op[-2])
    data = np.full((1, 2, *(2,) * rank), -1, dtype)
    data.reshape(2, -1)[:, 0] = (-2, 4)
    want = [int(float(row.mean())) for row in data.reshape(2, -1)]
    x = relay.var("x", shape=data.shape, dtype=dtype)
    mod = tvm.IRModule.from_expr(relay.Function([x], getattr(relay.nn, op)(x, *arguments)))
    for kind in ("graph", "vm", "debug"):
        assert relay.create_executor(kind, mod).evaluate()(data).numpy().ravel().tolist() == want


def test_a_window_of_padding_alone_gives_the_least_finite_value(tvm, relay):
    data = np.ones((1, 1, 2), "float32")
    x = relay.var("x", shape=data.shape)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.max_pool1d(x, 1, padding=(2, 1))))
    want = tvm.topi.testing.poolnd_python(data, [1], [1], [1], [2], [1], "max", layout="NCW")
    for kind in ("graph", "vm", "debug"):
        np.testing.assert_array_equal(relay.create_executor(kind, mod).evaluate()(data).numpy(), want)


@pytest.mark.parametrize("op", ["where", "add", "less", "maximum"])
def test_shapes_that_do_not_broadcast_are_said_in_the_last_line(tvm, relay, op):
    any_ = relay.Any()
    x, y = relay.var("x", shape=(any_, 3)), relay.var("y", shape=(any_, any_))
    operands = [x, y]
    arrays = [np.ones((2, 3), "float32"), np.ones((4, 2), "float32")]
    if op == "where":
        operands = [relay.var("c", shape=(any_, 1), dtype="bool"), *operands]
        arrays = [np.ones((2, 1), "bool"), *arrays]
    mod = tvm.IRModule.from_expr(relay.Function(operands, getattr(relay, op)(*operands)))
    for kind in ("vm", "debug"):
        with pytest.raises(tvm.TVMError) as found:
            relay.create_executor(kind, mod).evaluate()(*arrays)
        assert "Invalid broadcast shapes" in str(found.value).split("\n")[-1]


def test_all_classes_are_listed_one_after_another(tvm, relay):
    boxes = np.array([[[0, 0, 1, 1], [0, 2, 1, 3], [0, 4, 1, 5]]], "float32")
    scores = np.array([[[0.2, 0.5, 0.1], [0.9, 0.3, 0.8]]], "float32")
    call = relay.vision.all_class_non_max_suppression(
        relay.var("b", shape=boxes.shape), relay.var("s", shape=scores.shape), 3, 0.5, 0.15, output_format="tensorflow"
    )
    params = relay.analysis.free_vars(call.astuple())
    mod = tvm.IRModule.from_expr(relay.Function(params, call.astuple()))
    indices, values, counts = relay.create_executor("vm", mod).evaluate()(boxes, scores)
    assert indices.numpy()[0, : counts.numpy()[0]].tolist() == [[0, 1], [0, 0], [1, 0], [1, 2], [1, 1]]
    np.testing.assert_allclose(values.numpy()[0, :5], [0.5, 0.2, 0.9, 0.8, 0.3])


def test_the_optimized_module_writes_out_the_memory_of_what_it_calls(tvm, relay):
    any_ = relay.Any()
    x, y = relay.var("x", shape=(any_, any_)), relay.var("y", shape=(any_, any_))
    found, left = relay.vm.VMCompiler().optimize(
        tvm.IRModule.from_expr(relay.Function([x, y], relay.add(x, y))), target="llvm"
    )
    text = found.astext(False)
    assert left == {}
    for name in ("vm.shape_of", "vm.shape_func", "memory.alloc_storage", "memory.alloc_tensor", "vm.invoke_tvm_op"):
        assert name in text
    z = relay.var("z", shape=(2, 3))
    static, _ = relay.vm.VMCompiler().optimize(tvm.IRModule.from_expr(relay.Function([z], relay.exp(z))), "llvm")
    assert "shape_func" not in static.astext(False) and "const_shape" in static.astext(False)


def test_the_optimized_module_of_an_external_region_has_a_shape_function(tvm, relay):
    x = relay.var("x", shape=(relay.Any(), 25))
    weight = relay.const(np.ones((5, 25), "float32"))
    attrs = {"Primitive": 1, "Compiler": "optimize_test", "global_symbol": "f1"}
    region = relay.Function([x], relay.nn.dense(x, weight), attrs=attrs)
    mod, name = tvm.IRModule(), relay.GlobalVar("f1")
    mod[name] = region
    y = relay.var("y", shape=(relay.Any(), 25))
    mod = relay.transform.InferType()(mod)
    mod["main"] = relay.Function([y], name(y))
    found, _ = relay.vm.VMCompiler().optimize(mod, target="llvm")
    assert "shape_func" in found.astext(False)


def test_branches_and_several_outputs_have_their_memory_too(tvm, relay):
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(relay.Any(), 4))
    parts = relay.split(x, 2, axis=1)
    body = relay.If(c, relay.add(parts[0], parts[1]), relay.exp(parts[1]))
    found, _ = relay.vm.VMCompiler().optimize(tvm.IRModule.from_expr(relay.Function([c, x], body)), "llvm")
    assert found.astext(False).count("vm.shape_func") >= 3


@pytest.mark.parametrize(
    "shapes, count",
    [
        (([-1, 4], [0, 2, -1]), 1),
        (([16, -1], [-1, 4, 2], [0, -1]), 1),
        (([0, 4, 4], [-3, 4]), 1),
    ],
)
def test_reshapes_in_a_row_are_one_instruction(tvm, relay, shapes, count):
    data = np.arange(128, dtype="float32").reshape(8, 16)
    want = data
    for shape in shapes:
        want = relay.create_executor("debug").evaluate(relay.reshape(relay.const(want), shape)).numpy()
    for size in (relay.Any(), tvm.te.size_var("n"), 8):
        x = value = relay.var("x", shape=(size, 16))
        for shape in shapes:
            value = relay.reshape(value, shape)
        made = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], value)), "llvm")
        assert made.bytecode.count("reshape_tensor") == count
        np.testing.assert_array_equal(tvm.runtime.vm.VirtualMachine(made, tvm.cpu()).run(data).numpy(), want)
