"""The thin modules name and convert things as TVM's do."""

import numpy as np
import pytest


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


def test_a_compilation_configuration_distinguishes_host_from_accelerators(tvm):
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
def test_depthwise_convolutions_are_reported(tvm, shapes, layouts, groups, expected):
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


def test_a_new_operator_is_registered_by_name(tvm):
    from tvm import relay

    op = relay.op.register("compat_test_op", "a test")
    relay.op.register_pattern("compat_test_op", relay.op.OpPattern.ELEMWISE)
    relay.op.register_stateful("compat_test_op", True)
    assert relay.op.get("compat_test_op") is op and op.get_attr("TOpIsStateful") is True
    assert op.get_attr("TOpPattern") == relay.op.OpPattern.ELEMWISE == op.pattern
    with pytest.raises(tvm.TVMError, match="registered already"):
        relay.op.register("compat_test_op")


def test_containers_are_those_of_python(tvm):
    from tvm.ir.container import Array, Map

    assert isinstance((1, 2), Array) and isinstance([1], Array) and not isinstance("text", Array)
    assert isinstance({}, Map)
    adt = tvm.runtime.container.tuple_object([1, 2])
    assert (adt.tag, list(adt), adt[1]) == (0, [1, 2], 2)


def test_calls_are_made_by_the_functions_of_make(tvm):
    from tvm import relay

    x = relay.var("x", shape=(2, 3))
    made = relay.op._make.concatenate(relay.Tuple([x, x]), 1)
    tvm.ir.assert_structural_equal(made, relay.concatenate([x, x], axis=1), map_free_vars=True)
    with pytest.raises(tvm.TVMError, match="tvm.relay.op._make.torchop"):
        relay.op._make.torchop(x)


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
