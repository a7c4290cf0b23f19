"""The thin modules behave as TVM's do; the table of names is the one that the code gives."""

import pathlib
import re

import numpy as np
import pytest

from byoc.compat.tvm.behaviours import Behaviour, behaviours
from byoc.compat.tvm.coverage import page, read_tables, survey
from byoc.errors import ByocError, UserError

TABLE = pathlib.Path(__file__).parents[2] / "docs" / "relay_names.md"


def test_no_name_that_the_table_has_is_lost(installed):
    claimed = set(re.findall(r"`([\w.]+)` \| \d+ \| present", TABLE.read_text()))
    present = {entry.name for ranked in survey(read_tables(TABLE)) for entry in ranked.entries if not entry.missing}
    assert len(claimed) > 300 and claimed <= present


@pytest.mark.parametrize("checked", behaviours(), ids=lambda checked: f"{checked.area}-{checked.sentence[:60]}")
def test_a_behaviour_of_relay_holds(installed, checked):
    assert checked.missing() == ""


def test_a_behaviour_that_does_not_hold_is_told_with_its_reason(installed):
    def check(tvm, relay):
        raise ValueError("it is otherwise\nand more")

    failing = Behaviour("types", "something is so", check)
    assert failing.missing() == "ValueError: it is otherwise"
    made = page([], [(failing, failing.missing()), (behaviours()[0], "")])
    assert "1 of the 2 behaviours hold." in made
    assert "| types | something is so | missing: ValueError: it is otherwise |" in made


def test_a_page_is_made_of_the_names_that_it_has_and_their_counts(installed, tmp_path):
    rows = "| # | name | CORE | T |\n|---|---|---|---|\n| 1 | `relay.var` | 1 | 6 |\n| 2 | `tvm.build` | 0 | 1 |"
    more = "| # | name | T | F |\n|---|---|---|---|\n| 1 | `relay.nonsense` | 3 | 1 |\n| 2 | `relay.add` | 2 | 9 |"
    (tmp_path / "names.md").write_text(f"# Names\n## 1. First\n{rows}\n## 2. Next\n{more}\n")
    made = page(survey(read_tables(tmp_path / "names.md")))
    assert "## 1. First\n\n1 of the 2 names are present; they are 85.7 % of 7 counted uses.\n" in made
    assert "## 2. Next\n\n1 of the 2 names are present; they are 40.0 % of 5 counted uses.\n" in made
    assert "| 1 | `relay.var` | 6 | present |" in made and "| 1 | `relay.nonsense` | 3 | missing: not written" in made
    assert "| 2 | `tvm.build` | 1 | missing: builds tensor-level functions" in made
    (tmp_path / "made.md").write_text(made)
    assert page(survey(read_tables(tmp_path / "made.md"))) == made


def test_the_page_has_the_207_base_names_and_the_next_260_in_their_order():
    base, following = read_tables(TABLE)
    for ranked, count in ((base, 207), (following, 260)):
        assert [entry.rank for entry in ranked.entries] == list(range(1, count + 1))
        assert len({entry.name for entry in ranked.entries}) == count
    assert (base.entries[0].name, following.entries[0].name) == ("relay.var", "relay.testing.run_infer_type")
    assert (base.entries[0].uses, following.entries[0].uses) == (1176, 231)


def test_a_file_without_a_table_is_one_sentence(tmp_path):
    (tmp_path / "empty.md").write_text("nothing")
    for path in (tmp_path / "empty.md", tmp_path / "gone.md"):
        with pytest.raises(UserError, match="table of ranked names"):
            read_tables(path)


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        ("to_c_function_style", "TVM_Woof", "TVMWoof"),
        ("to_c_function_style", "TVM_woof_woof", "TVMWoofWoof"),
        ("to_c_function_style", "TVMGen_Woof_Woof", "TVMGenWoofWoof"),
        ("to_c_variable_style", "TVM_Woof", "tvm_woof"),
        ("to_c_variable_style", "TVMGen_Woof_Woof", "tvmgen_woof_woof"),
        ("to_c_constant_style", "TVM_Woof", "TVM_WOOF"),
        ("prefix_name", "Woof", "TVM_Woof"),
        ("prefix_name", ["Woof", "Moo"], "TVM_Woof_Moo"),
        ("prefix_generated_name", ["Woof", "Moo"], "TVMGen_Woof_Moo"),
        ("sanitize_name", "+woof ", "_woof_"),
        ("sanitize_name", "woof:1", "woof_1"),
        ("mangle_module_name", "default", "tvmgen_default"),
        ("mangle_module_name", None, "tvmgen"),
    ],
)
def test_names_of_c(tvm, function, given, expected):
    from tvm.relay.backend import name_transforms

    assert getattr(name_transforms, function)(given) == expected


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        ("to_c_function_style", "", "Function name is empty"),
        ("to_c_variable_style", "Cake_Bakery", "should start with TVM prefix"),
        ("prefix_name", [], "Name segments empty"),
        ("prefix_generated_name", "", "Name is empty"),
        ("sanitize_name", "", "Name is empty"),
    ],
)
def test_a_name_of_c_that_cannot_be_made_is_refused(tvm, function, given, message):
    from tvm.relay.backend import name_transforms

    with pytest.raises(tvm.TVMError, match=message):
        getattr(name_transforms, function)(given)


def test_a_name_supply_gives_each_name_once(tvm):
    supply = tvm.ir.supply.NameSupply("prefix")
    supply.reserve_name("test")
    assert supply.contains_name("test") and not supply.contains_name("other")
    assert [supply.fresh_name("test"), supply.fresh_name("test")] == ["prefix_test_1", "prefix_test_2"]
    assert supply.fresh_name("test", add_prefix=False) == "test"


def test_a_global_var_supply_knows_the_names_of_its_modules(tvm):
    from tvm import relay

    mod = tvm.IRModule.from_expr(relay.const(1))
    supply = tvm.ir.supply.GlobalVarSupply(mod)
    assert supply.unique_global_for("main", False) is mod.get_global_var("main")
    assert supply.fresh_global("main", False).name_hint == "main_1"
    assert supply.fresh_global("f").name_hint == "tvmgen_default_f"
    assert supply.unique_global_for("g") is supply.unique_global_for("g")
    named = tvm.ir.supply.GlobalVarSupply(mod.with_attr("mod_name", "net"))
    assert named.fresh_global("f").name_hint == "net_f"
    with pytest.raises(tvm.TVMError, match="belongs to another"):
        supply.reserve_global_var(relay.GlobalVar("main"))
    assert tvm.ir.supply.GlobalVarSupply().fresh_global("main").name_hint == "main"


def test_targets_are_read_asked_and_entered(tvm):
    target = tvm.target.Target("llvm -mcpu=skylake -device=arm_cpu", host="c")
    found = (target.kind.name, target.mcpu, target.keys, target.host.kind.name)
    assert found == ("llvm", "skylake", ["arm_cpu", "cpu"], "c")
    assert tvm.target.Target(target.export()) == target
    assert str(target) == "llvm -keys=arm_cpu,cpu -device=arm_cpu -mcpu=skylake"
    assert tvm.target.Target.current() is None
    with target, tvm.target.cuda(arch="sm_80") as inner:
        assert tvm.target.Target.current() is inner and inner.attrs["arch"] == "sm_80"
    with pytest.raises(tvm.TVMError, match="no current target"):
        tvm.target.Target.current(allow_none=False)
    with pytest.raises(tvm.TVMError, match="unknown kind of target 'nonsense'"):
        tvm.target.Target("nonsense")
    assert {"llvm", "cuda"} <= set(tvm.target.Target.list_kinds())


def test_a_compilation_configuration_tells_host_from_accelerators(tvm):
    config = tvm.target.make_compilation_config(None, ["llvm -mcpu=native", "cuda"])
    assert [t.kind.name for t in config.primitive_targets] == ["llvm", "cuda"]
    assert config.host_target.mcpu == "native"


def test_a_target_without_code_is_refused_by_build(tvm):
    from tvm import relay

    x = relay.var("x", shape=(2,))
    with pytest.raises(tvm.TVMError, match="no code for the target 'cuda'"):
        relay.build(tvm.IRModule.from_expr(relay.exp(x)), "cuda")


def test_integers_are_immediates(tvm):
    assert isinstance(3, tvm.tir.IntImm) and not isinstance(True, tvm.tir.IntImm)
    assert not isinstance(tvm.relay.Any(), tvm.tir.IntImm) and tvm.relay.Any is tvm.tir.Any
    made = tvm.tir.IntImm("int64", 5)
    assert made == 5 and made.value == 5 and made.dtype == "int64" and isinstance(made, tvm.tir.IntImm)
    assert tvm.relay.TensorType((made, 2)) == tvm.relay.TensorType((5, 2))
    assert isinstance(1.5, tvm.tir.FloatImm) and not isinstance(1.5, tvm.tir.IntImm)


def test_numbers_are_compared_with_their_shapes(tvm):
    tvm.testing.assert_allclose(tvm.nd.array(np.ones(3, "float32")), np.ones(3))
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(np.ones(3), np.ones(3) + 1e-3)
    with pytest.raises(AssertionError, match="shapes differ"):
        tvm.testing.assert_allclose(np.ones(3), np.ones((3, 1)))


def test_global_functions_by_the_names_of_tvm(tvm):
    @tvm.register_func
    def compat_test_bare(x):
        return x + 1

    tvm.register_func("compat.test.named", lambda x: x + 2)
    assert tvm.get_global_func("compat_test_bare")(1) == 2 and tvm.get_global_func("compat.test.named")(1) == 3
    assert tvm.get_global_func("compat.test.gone", allow_missing=True) is None
    with pytest.raises(tvm.TVMError):
        tvm.get_global_func("compat.test.gone")
    with pytest.raises(tvm.TVMError, match="registered twice"):
        tvm.register_func("compat.test.named", lambda x: x)


def test_a_vendor_module_is_filled_with_the_functions_of_its_namespace(tvm, monkeypatch):
    import sys
    import types

    monkeypatch.setitem(sys.modules, "compat_vendor", types.ModuleType("compat_vendor"))
    tvm.register_func("compat.vendor.ask", lambda: 7)
    tvm._ffi._init_api("compat.vendor", "compat_vendor")
    assert sys.modules["compat_vendor"].ask() == 7


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


@pytest.mark.parametrize(
    ("shapes", "layouts", "groups", "expected"),
    [
        (((1, 8, 4, 4), (8, 1, 3, 3)), ("NCHW", "OIHW"), 8, True),
        (((1, 8, 4, 4), (8, 8, 3, 3)), ("NCHW", "OIHW"), 1, False),
        (((1, 4, 4, 8), (3, 3, 8, 1)), ("NHWC", "HWOI"), 8, True),
        (((1, 8, 4, 4), (16, 1, 3, 3)), ("NCHW", "OIHW"), 8, False),
        (((1, 8, 4, 4), (8, 2, 3, 3)), ("NCHW", "OIHW"), 4, False),
    ],
)
def test_depthwise_convolutions_are_told(tvm, shapes, layouts, groups, expected):
    from tvm.relay.op.strategy.generic import is_depthwise_conv2d

    (data, kernel), (data_layout, kernel_layout) = shapes, layouts
    assert is_depthwise_conv2d(data, data_layout, kernel, kernel_layout, groups) is expected


def test_attributes_are_made_by_their_key(tvm):
    from tvm import relay

    attrs = tvm.ir.make_node("relay.attrs.Conv2DAttrs", strides=(2, 2), groups=4)
    assert type(attrs).__name__ == "Conv2DAttrs" and attrs.groups == 4
    assert type(attrs) is relay.op.op_attrs.Conv2DAttrs
    assert tvm.ir.make_node("DictAttrs", Compiler="acme")["Compiler"] == "acme"
    with pytest.raises(tvm.TVMError, match="has none called 'Nonsense'"):
        tvm.ir.make_node("Nonsense")


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


def test_a_new_operator_is_registered_by_name(tvm):
    from tvm import relay

    op = relay.op.register("compat_test_op", "a test")
    relay.op.register_pattern("compat_test_op", relay.op.OpPattern.ELEMWISE)
    relay.op.register_stateful("compat_test_op", True)
    assert relay.op.get("compat_test_op") is op and op.get_attr("TOpIsStateful") is True
    assert op.get_attr("TOpPattern") == relay.op.OpPattern.ELEMWISE == op.pattern
    with pytest.raises(tvm.TVMError, match="registered already"):
        relay.op.register("compat_test_op")


def test_errors_and_the_build_are_named_as_in_tvm(tvm):
    assert tvm.TVMError is ByocError and issubclass(tvm.error.DiagnosticError, tvm.TVMError)
    options = tvm.support.libinfo()
    assert options["USE_LLVM"] == options["USE_OTHER"] == "OFF" and re.match(r"0\.18", tvm.__version__)
    assert tvm.runtime.enabled("llvm") and not tvm.runtime.enabled("cuda")
    assert tvm.device("llvm", 0) == tvm.cpu(0) == tvm.device(1) and str(tvm.cuda(1)) == "cuda(1)"


def test_containers_are_those_of_python(tvm):
    from tvm.ir.container import Array, Map

    assert isinstance((1, 2), Array) and isinstance([1], Array) and not isinstance("text", Array)
    assert isinstance({}, Map)
    adt = tvm.runtime.container.tuple_object([1, 2])
    assert (adt.tag, list(adt), adt[1]) == (0, [1, 2], 2)


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


def test_calls_are_made_by_the_functions_of_make(tvm):
    from tvm import relay

    x = relay.var("x", shape=(2, 3))
    made = relay.op._make.concatenate(relay.Tuple([x, x]), 1)
    tvm.ir.assert_structural_equal(made, relay.concatenate([x, x], axis=1), map_free_vars=True)
    with pytest.raises(tvm.TVMError, match="tvm.relay.op._make.torchop"):
        relay.op._make.torchop(x)


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


def test_a_dtype_is_taken_apart(tvm):
    read = {name: tvm.DataType(name) for name in ("float32", "int8x4", "bool", "bfloat16", "handle")}
    assert [(d.type_code, d.bits, d.lanes) for d in read.values()] == [
        (2, 32, 1),
        (0, 8, 4),
        (1, 1, 1),
        (4, 16, 1),
        (3, 64, 1),
    ]
    assert read["float32"] == "float32" and read["int8x4"].itemsize == 4
    with pytest.raises(tvm.TVMError, match="is no dtype"):
        tvm.runtime.DataType("float32y")


def test_constants_of_shapes_and_padding(tvm):
    from tvm.relay.op.nn.utils import get_pad_tuple1d, get_pad_tuple2d, get_pad_tuple3d
    from tvm.topi.utils import get_const_int, get_const_tuple

    shape = tvm.relay.TensorType((2, tvm.relay.Any(), 3)).shape
    assert get_const_tuple(shape)[::2] == (2, 3) and [type(d) for d in get_const_tuple(shape)][::2] == [int, int]
    assert get_const_int(shape[0]) == 2
    with pytest.raises(tvm.TVMError, match="is not known when compiling"):
        get_const_int(shape[1])
    assert get_pad_tuple1d(1) == (1, 1) and get_pad_tuple2d((1, 2)) == (1, 2, 1, 2)
    assert get_pad_tuple2d([1, 2, 3, 4]) == (1, 2, 3, 4)
    assert get_pad_tuple3d((1, 2, 3)) == (1, 2, 3, 1, 2, 3)
    with pytest.raises(tvm.TVMError):
        get_pad_tuple2d((1, 2, 3))


def test_sizes_with_a_name_are_one_size_and_what_is_computed_of_them_is_equal_by_structure(tvm):
    from tvm import relay, te

    n, m = te.size_var("n"), te.var("m")
    x, y = relay.var("x", shape=(n, m, 3)), relay.var("y", relay.TensorType((n, 1, 3), "float32"))
    assert relay.testing.run_infer_type(relay.add(x, y)).checked_type == relay.TensorType((n, m, 3), "float32")
    assert isinstance(n, tvm.tir.Var) and isinstance(n, tvm.tir.SizeVar) and n.dtype == "int32" and n.name == "n"
    assert 2 * n * 3 - m == 6 * n - m != relay.Any() and (n + m) // 2 == (m + n) // 2 != (n + m) // 3
    assert isinstance(n + 1, relay.Any)
    assert not isinstance(relay.Any(), tvm.tir.Var) and not isinstance(n, tvm.tir.IntImm)
    assert n + 1 != relay.Any() and not isinstance(2 * n, tvm.tir.Var)


def test_values_are_converted_to_objects_with_a_dtype(tvm):
    assert tvm.runtime.const(1).dtype == "int32" and tvm.runtime.const(1.5).value == 1.5
    assert tvm.runtime.const(True).dtype == "bool" and tvm.tir.const(3, "int64").dtype == "int64"
    made = tvm.runtime.convert([1, 2.5, "a", [np.zeros(2)], {"k": 3}])
    assert isinstance(made, tvm.ir.container.Array) and made[0].value == 1 and made[1].value == 2.5
    assert isinstance(made[2], tvm.runtime.String) and made[4]["k"].value == 3
    assert isinstance(made[3][0], tvm.nd.NDArray)
    assert tvm.relay.TensorType(tvm.runtime.convert([1, 2])) == tvm.relay.TensorType((1, 2))
    x = tvm.relay.var("x")
    assert tvm.runtime.convert(x) is x and isinstance(x, tvm.runtime.Object) and not isinstance(1, tvm.runtime.Object)


def test_objects_are_the_same_only_as_themselves(tvm):
    from tvm import relay

    x = relay.var("x", shape=(1, 3, 4, 4))
    call = relay.nn.max_pool2d(x, (2, 2))
    assert call.args[0].same_as(x) and not call.same_as(relay.nn.max_pool2d(x, (2, 2)))
    assert call.attrs == relay.nn.max_pool2d(x, (2, 2)).attrs and not call.attrs.same_as(relay.nn.max_pool2d(x).attrs)
    assert [field.name for field in call.attrs.list_field_info()] == list(call.attrs.keys())
    assert call.attrs.pool_size[0].value == 2 and dict(call.attrs)["layout"] == "NCHW"
    assert "nn.max_pool2d(%x" in call.astext() and tvm.ir.Op.get("nn.max_pool2d") is call.op
    assert "nn.max_pool2d" in tvm.ir.Op.list_op_names()
    func = relay.Function([x], call).with_attr("Compiler", "acme")
    assert func.attrs.Compiler == "acme" and tvm.IRModule().with_attr("a", 1).get_attr("a") == 1
    with pytest.raises(AttributeError, match="no attribute 'Composite'"):
        func.attrs.Composite  # noqa: B018


def test_relay_has_no_floor_division_of_expressions(relay):
    # ExprWithOp has __truediv__ alone: `//` is Python's TypeError, and relay.floor_divide is the operator
    x = relay.var("x", shape=(2,), dtype="int32")
    for make in (lambda: x // x, lambda: x // 2, lambda: 2 // x):
        with pytest.raises(TypeError, match="unsupported operand type"):
            make()
    assert relay.floor_divide(x, x).op == relay.op.get("floor_divide")
