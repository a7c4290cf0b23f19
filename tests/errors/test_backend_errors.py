"""A vendor's backend that misbehaves: the error names the backend and the region, and the others go on."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import BACKENDS, Backend, accept, checked_options, register_backend
from byoc.driver.vm import compile_module
from byoc.errors import CompileError, CompilerNotFoundError, InternalError, PartitionError, UserError
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.partition.plan.plan import Plan
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.modules.module import Module

pytestmark = pytest.mark.needs_cc
REGION = r"tvmgen_default_test_vendor_main_0 \(nodes plus, act\)"


def onnx_model():
    shape = [2, 3]
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"], name="plus"),
        helper.make_node("Relu", ["a"], ["y"], name="act"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture
def vendor():
    """Registers a backend ``test_vendor`` whose methods are given; takes it away again."""
    taken = []

    def make(**methods):
        takes_all = {"supports": lambda self, call: accept(call), "compile": lambda self, function, options: None}
        attributes = {"name": "test_vendor", **takes_all, **methods}
        taken.append("test_vendor")
        register_backend(type("TestVendor", (Backend,), attributes))

    yield make
    for name in taken:
        functions = [key for key in GLOBAL_FUNCTIONS if key.startswith(f"relay.ext.{name}")]
        for registry, keys in (
            (BACKENDS, [name]),
            (TARGET_PREDICATES, [name]),
            (PATTERN_TABLES, [name]),
            (GLOBAL_FUNCTIONS, functions),
        ):
            for key in keys:
                registry.unregister(key)


def build():
    return byoc.compile(onnx_model(), targets=["test_vendor", "c"])


class Runner(Module):
    """A module of one symbol that adds and clips, as the model does."""

    type_key = "test_vendor"

    def __init__(self, symbol, constants=()):
        super().__init__()
        self._symbol, self._constants = symbol, constants

    @property
    def symbols(self):
        return (self._symbol,)

    def get_function(self, name, query_imports=False):
        def call(x, y):
            np.copyto(y.numpy(), np.maximum(x.numpy() * 2, 0))

        return call if name == self._symbol else None

    def constants(self):
        return {self._symbol: self._constants}


def test_a_backend_that_works_works(vendor):
    vendor(compile=lambda self, function, options: Runner(function.attrs["global_symbol"]))
    x = np.array([[1, -1, 2], [0, 3, -4]], "float32")
    np.testing.assert_array_equal(build()(x), np.maximum(2 * x, 0))


@pytest.mark.parametrize(("result", "kind"), [(None, "NoneType"), ("code", "str"), (Runner, "type")])
def test_a_compile_that_returns_no_module_is_named(vendor, result, kind):
    vendor(compile=lambda self, function, options: result)
    with pytest.raises(CompileError, match=rf"backend 'test_vendor' gave {kind} for {REGION}; its compile must return"):
        build()


def test_a_module_without_the_symbol_is_named(vendor):
    vendor(compile=lambda self, function, options: Runner("other"))
    with pytest.raises(CompileError, match=rf"symbols of its module for {REGION} has other, expected"):
        build()


def test_a_compile_that_raises_is_named_and_keeps_its_cause(vendor):
    def broken(self, function, options):
        raise ZeroDivisionError("division by zero")

    vendor(compile=broken)
    message = rf"backend 'test_vendor' failed on {REGION}: ZeroDivisionError: division by zero"
    with pytest.raises(CompileError, match=message) as caught:
        build()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("raised", "advice"),
    [(CompileError("too many"), "; compile with fallback=True .* on the host then"), (InternalError("pass x"), "")],
)
def test_an_error_of_ours_that_a_backend_raises_keeps_its_family(vendor, raised, advice):
    def broken(self, function, options):
        raise raised

    vendor(compile=broken)
    with pytest.raises(type(raised), match=rf"backend 'test_vendor' failed on {REGION}: {raised}{advice}$"):
        build()


def test_a_backend_that_lacks_a_compiler_says_that_the_machine_lacks_it(vendor):
    def broken(self, function, options):
        raise CompilerNotFoundError("acmecc was not found")

    vendor(compile=broken)
    with pytest.raises(CompilerNotFoundError, match="acmecc was not found"):
        build()


def test_constants_that_are_asked_for_and_not_given_are_named(vendor):
    vendor(compile=lambda self, function, options: Runner(function.attrs["global_symbol"], ("weight_0",)))
    message = (
        "backend 'test_vendor': the module of tvmgen_default_test_vendor_main_0 asks for the constant 'weight_0', "
        "which it does not give; put it in the module's constant_arrays"
    )
    with pytest.raises(CompileError, match=message):
        build()


def test_constants_that_are_given_reach_the_module_once(vendor):
    seen = []

    class Weighted(Runner):
        def initialize(self, symbol, constants):
            seen.append((symbol, [c.numpy().tolist() for c in constants]))

    def compiled(self, function, options):
        module = Weighted(function.attrs["global_symbol"], ("weight_0",))
        module.constant_arrays = {"weight_0": NDArray(np.array([7], "float32"))}
        return module

    vendor(compile=compiled)
    library = build()
    for _ in range(3):
        library(np.ones((2, 3), "float32"))
    assert seen == [("tvmgen_default_test_vendor_main_0", [[7.0]])]


def test_a_supports_that_raises_is_a_refusal_with_its_reason_in_the_plan(vendor):
    def broken(self, call):
        raise KeyError("strides")

    vendor(supports=broken)
    library = build()
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(library(x), 2 * x)
    assert "the backend failed when asked: KeyError: 'strides'" in str(Plan.from_json(library.report["plan"]))


def test_a_region_is_optimized_before_it_is_compiled(vendor):
    seen = []

    def optimize(self, region):
        calls = [n for n in relay.traverse.post_order(region) if isinstance(n, relay.Call)]
        seen.append(", ".join(call.op.name for call in calls))
        return region

    vendor(optimize=optimize, compile=lambda self, function, options: Runner(function.attrs["global_symbol"]))
    build()
    assert seen and set(seen) == {"multiply, nn.relu"}  # x + x is 2 x


def test_an_optimize_that_raises_is_named(vendor):
    def broken(self, region):
        raise RuntimeError("no tiling found")

    vendor(optimize=broken)
    with pytest.raises(PartitionError, match=r"relay\.ext\.test_vendor\.optimize failed: RuntimeError: no tiling"):
        build()


def test_a_module_that_cannot_be_saved_is_named_and_leaves_nothing(vendor, tmp_path):
    vendor(compile=lambda self, function, options: Runner(function.attrs["global_symbol"]))
    with pytest.raises(UserError, match="the module Runner of tvmgen_default_test_vendor_main_0 cannot be saved"):
        build().save(tmp_path / "m.byoc")
    assert list(tmp_path.iterdir()) == []


def test_a_module_without_a_type_key_cannot_be_saved(vendor, tmp_path):
    class Nameless(Runner):
        type_key = ""

    vendor(compile=lambda self, function, options: Nameless(function.attrs["global_symbol"]))
    with pytest.raises(UserError, match="its class has no type_key, by which it would be loaded"):
        build().save(tmp_path / "m.byoc")


def test_a_backend_without_a_name_and_a_name_that_is_taken_are_refused():
    with pytest.raises(UserError, match="Nameless needs a name"):
        register_backend(type("Nameless", (Backend,), {}))
    with pytest.raises(UserError, match="json"):
        byoc.contract.get_backend("json")
        register_backend(type("Second", (JsonBackend,), {"name": "json"}))


def test_options_for_a_backend_that_takes_none_are_refused():
    with pytest.raises(CompileError, match="backend json takes no options, got 'speed': leave it out"):
        byoc.compile(onnx_model(), targets=["json", "c"], backend_options={"json": {"speed": 1}})
    with pytest.raises(CompileError, match="option 'flags' of backend c is a list of strings, got '-O0'"):
        byoc.compile(onnx_model(), targets=["c"], backend_options={"c": {"flags": "-O0"}})
    with pytest.raises(UserError, match="option 'layout' of backend c is one of channels_last, default, got 'NCHW'"):
        byoc.compile(onnx_model(), targets=["c"], backend_options={"c": {"layout": "NCHW"}})


def test_options_for_a_backend_that_is_no_target_are_refused(tmp_path, capsys):
    sentence = (
        r"backend opencl is given the option half, and is no target here \(the targets are json, c\): "
        "add opencl to the targets, or leave its options out"
    )
    given = {"opencl": {"half": "memory"}}
    with pytest.raises(PartitionError, match=sentence):
        byoc.compile(onnx_model(), targets=["json", "c"], backend_options=given)
    with pytest.raises(PartitionError, match=sentence):
        byoc.compile(onnx_model(), plan=byoc.plan(onnx_model(), ["json", "c"]), backend_options=given)
    with pytest.raises(PartitionError, match="opencl is given the option half, and is no target here"):
        byoc.export_c(onnx_model(), tmp_path / "c", backend_options=given)
    byoc.compile(onnx_model(), targets=["json"], backend_options={"c": {"strict": True}, "opencl": {}})
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_model().SerializeToString())
    for words in (["compile", str(path), "-t", "json", "-t", "c", "-o", str(tmp_path / "m.byoc")], ["run", str(path)]):
        assert main([*words, "--set", "opencl.half=memory"]) == 2
        assert "backend opencl is given the option half, and is no target here" in capsys.readouterr().err


@pytest.mark.parametrize("compiled", [byoc.compile, compile_module])
@pytest.mark.parametrize(
    "options, sentence",
    [
        (
            {"c": {"winogard": "off"}},
            "backend c has no option 'winogard': it takes flags, .*, of which 'winograd' is the",
        ),
        (
            {"c": {"nope": 1}},
            "backend c has no option 'nope': it takes flags, layout, max_error, strict, tune, winograd$",
        ),
        (
            {"opencl": {"strict": "maybe"}},
            "backend opencl has no option 'strict': it takes device, half, max_error, mode, ",
        ),
        ({"host": {"strict": True}}, "no backend is called 'host'; known: .*c, "),
        ({"c": "strict"}, "the options of backend c are a mapping by their names, got 'strict'"),
    ],
)
def test_options_that_a_backend_does_not_have_are_refused_with_what_it_takes(compiled, options, sentence):
    with pytest.raises(UserError, match=sentence):
        compiled(byoc.import_onnx(onnx_model()), backend_options=options)


def test_a_backend_that_declares_no_options_is_given_any(vendor):
    vendor()
    assert checked_options({"test_vendor": {"speed": 1}}) == {"test_vendor": {"speed": 1}}


@pytest.mark.parametrize(
    "own, taken",
    [
        ({}, False),
        ({"compile": JsonBackend.compile}, True),
        ({"compile": JsonBackend.compile, "options": ["size"]}, False),
        ({"options": ["speed"]}, True),
    ],
)
def test_what_a_backend_declares_counts_for_the_compile_that_it_is_about(own, taken):
    """A backend made from another one that has a ``compile`` of its own takes what that asks for."""
    register_backend(type("Made", (JsonBackend,), {"name": "test_made", **own}))
    try:
        given = {"test_made": {"speed": 1}}
        if taken:
            assert checked_options(given) == given
        else:
            with pytest.raises(CompileError, match="backend test_made"):
                checked_options(given)
    finally:
        for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
            registry.unregister("test_made")
        GLOBAL_FUNCTIONS.unregister("relay.ext.test_made")


def test_control_flow_in_main_is_refused_with_what_to_do():
    x, c = relay.var("x", shape=(3,)), relay.var("c", shape=(), dtype="bool")
    mod = byoc.IRModule.from_expr(relay.Function([x, c], relay.If(c, relay.exp(x), x)))
    with pytest.raises(CompileError, match="the graph executor runs no If: compile the module with relay.vm.compile"):
        byoc.compile(mod)
