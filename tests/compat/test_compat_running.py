"""The thin modules build, save, load and run as TVM's do."""

import re

import numpy as np
import pytest

from byoc.errors import ByocError


def test_parameters_are_bound_by_name_and_others_passed_over(tvm):
    from tvm import relay

    x, w = relay.var("x", shape=(2,)), relay.var("w", shape=(2,))
    func = relay.Function([x, w], relay.add(x, w))
    bound = relay.build_module.bind_params_by_name(func, {"w": np.ones(2, "float32"), "gone": 1})
    assert [p.name_hint for p in bound.params] == ["x"]
    expected = relay.Function([x], relay.add(x, relay.const(np.ones(2, "float32"))))
    tvm.ir.assert_structural_equal(bound, expected)
    twice = relay.var("w", shape=(2,))
    with pytest.raises(tvm.TVMError, match="two parameters are called 'w'"):
        relay.build_module.bind_params_by_name(relay.Function([w, twice], relay.add(w, twice)), {"w": np.ones(2)})


@pytest.mark.needs_cc
def test_a_built_library_is_exported_loaded_and_run(tvm):
    from tvm import relay
    from tvm.contrib import graph_executor, utils

    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    weights = np.arange(12, dtype="float32").reshape(4, 3)
    with tvm.transform.PassContext(opt_level=3):
        built = relay.build(mod, tvm.target.Target("llvm"), params={"w": tvm.nd.array(weights)})
    folder = utils.tempdir()
    built.export_library(folder.relpath("lib.so"))
    assert folder.listdir() == ["lib.so"]
    loaded = tvm.runtime.load_module(folder.relpath("lib.so"))
    runner = graph_executor.GraphModule(loaded["default"](tvm.cpu(0)))
    data = np.ones((2, 3), "float32")
    runner.set_input("x", data, unknown_parameter=data)
    runner.run()
    out = runner.get_output(0, tvm.nd.empty((2, 4)))
    np.testing.assert_allclose(out.numpy(), data @ weights.T)
    assert runner.get_input_index("x") == 0 and runner.get_input_index("w") == -1
    assert runner.get_input_info() == ({"x": (2, 3)}, {"x": "float32"})
    with pytest.raises(tvm.TVMError, match="no input 'w'"):
        runner.set_input("w", weights)


@pytest.mark.needs_cc
def test_the_virtual_machine_saves_loads_and_runs(tvm):
    from tvm import relay
    from tvm.runtime.vm import Executable, VirtualMachine

    x = relay.var("x", shape=(3,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.exp(x), relay.negative(x)])))
    code, lib = relay.vm.compile(mod, "llvm").save()
    folder = tvm.contrib.utils.tempdir()
    lib.export_library(folder.relpath("vm.so"))
    executable = Executable.load_exec(code, tvm.runtime.load_module(folder.relpath("vm.so")))
    result = VirtualMachine(executable, tvm.cpu()).run(np.array([0, 1, 2], "float32"))
    assert isinstance(result, tvm.runtime.container.ADT) and len(result) == 2
    np.testing.assert_allclose(result[0].numpy(), np.exp([0, 1, 2]), rtol=1e-6)
    np.testing.assert_array_equal(result[1].numpy(), [0, -1, -2])


@pytest.mark.parametrize("kind", ["vm", "debug"])
def test_control_flow_is_interpreted(tvm, kind):
    from tvm import relay

    x, flag = relay.var("x", shape=(2,)), relay.var("flag", shape=(), dtype="bool")
    mod = tvm.IRModule.from_expr(relay.Function([x, flag], relay.If(flag, relay.negative(x), x)))
    run = relay.create_executor(kind, mod).evaluate()
    data = np.array([1, 2], "float32")
    np.testing.assert_array_equal(run(data, True).numpy(), -data)
    np.testing.assert_array_equal(run(data, flag=False).numpy(), data)
    with pytest.raises(tvm.TVMError, match="main takes x, flag"):
        run(data)


def test_an_expression_is_evaluated_to_its_value(tvm):
    from tvm import relay

    value = relay.create_executor("debug").evaluate(relay.add(relay.const(1.0), relay.const(2.0)))
    assert float(value.numpy()) == 3
    with pytest.raises(tvm.TVMError, match="unknown execution strategy"):
        relay.create_executor("nonsense")


def test_a_module_goes_through_json(tvm):
    from tvm import relay

    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.add(x, relay.const([1.5, 2.5]))))
    tvm.ir.assert_structural_equal(tvm.ir.load_json(tvm.ir.save_json(mod)), mod)
    tvm.ir.assert_structural_equal(tvm.ir.load_json(tvm.ir.save_json(mod["main"])), mod["main"])
    with pytest.raises(tvm.TVMError, match="is not what"):
        tvm.ir.load_json("{}")


def test_parameters_go_through_bytes(tvm):
    from tvm.runtime import load_param_dict, save_param_dict

    params = {"a": np.arange(6, dtype="float32").reshape(2, 3), "b": tvm.nd.array(np.array([1, 2], "int8"))}
    back = load_param_dict(save_param_dict(params))
    np.testing.assert_array_equal(back["a"].numpy(), params["a"])
    assert back["b"].dtype == "int8" and sorted(back) == ["a", "b"]


def test_executors_and_runtimes_have_names_and_options(tvm):
    from tvm.relay.backend import Executor, Runtime

    aot = Executor("aot", {"interface-api": "c", "unpacked-api": True})
    assert aot["interface-api"] == "c" and "unpacked-api" in aot and aot != Executor("aot")
    assert Runtime.list_registered() == ["cpp", "crt"]
    assert Executor.list_registered_options("graph") == {"link-params": "runtime.BoxBool"}
    for make in (lambda: Executor("nonsense"), lambda: Runtime("cpp", {"nonsense": 1})):
        with pytest.raises(tvm.TVMError, match="nonsense"):
            make()


def test_errors_and_the_build_are_named_as_in_tvm(tvm):
    assert tvm.TVMError is ByocError and issubclass(tvm.error.DiagnosticError, tvm.TVMError)
    options = tvm.support.libinfo()
    assert options["USE_LLVM"] == options["USE_OTHER"] == "OFF" and re.match(r"0\.18", tvm.__version__)
    assert tvm.runtime.enabled("llvm") and not tvm.runtime.enabled("cuda")
    assert tvm.device("llvm", 0) == tvm.cpu(0) == tvm.device(1) and str(tvm.cuda(1)) == "cuda(1)"


def test_a_class_with_hooks_becomes_an_instrument(tvm):
    from tvm import relay
    from tvm.ir.instrument import pass_instrument

    seen = []

    @pass_instrument
    class Names:
        def run_before_pass(self, mod, info):
            seen.append(info.name)

    with tvm.transform.PassContext(instruments=[Names()]):
        relay.transform.InferType()(tvm.IRModule.from_expr(relay.const(1)))
    assert seen == ["InferType"] and tvm.instrument.pass_instrument is pass_instrument
    with pytest.raises(tvm.TVMError, match="no method of an instrument"):
        pass_instrument(type("Empty", (), {}))


def test_an_input_of_unknown_size_is_interpreted_and_refused_by_build(tvm):
    from tvm import relay

    x = relay.var("x", shape=(relay.Any(), 3))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    for rows in (5, 2):
        result = relay.create_executor("vm", mod).evaluate()(np.zeros((rows, 3), "float32"))
        np.testing.assert_array_equal(result.numpy(), np.ones((rows, 3)))
    with pytest.raises(tvm.TVMError, match="input x has a dimension of unknown size"):
        relay.build(mod, "llvm")


def test_a_recursive_function_runs_on_the_virtual_machine(tvm):
    from tvm import relay

    count, start = relay.var("count", shape=(), dtype="int32"), relay.var("start", shape=(), dtype="int32")
    down = relay.GlobalVar("down")
    body = relay.If(relay.less(count, relay.const(1)), count, down(relay.subtract(count, relay.const(1))))
    mod = tvm.IRModule({down: relay.Function([count], body, relay.TensorType((), "int32"))})
    mod["main"] = relay.Function([start], down(start))
    assert int(relay.create_executor("vm", mod).evaluate()(np.int32(5)).numpy()) == 0
