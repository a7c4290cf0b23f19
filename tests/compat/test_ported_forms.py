"""Forms that integrations written for Relay have: names of its Python, and a module of their own that runs a graph."""

import numpy as np
import pytest

from byoc.errors import CompileError
from byoc.runtime.modules.module import LOADERS, Module, register_module_loader

KEY = "ported_engine"


class Engine(Module):
    """A graph of one product and a sum, as an engine that reads JSON has it."""

    type_key = KEY

    def __init__(self, symbol, names, arrays=None):
        super().__init__()
        self.symbols, self.names, self.arrays = (symbol,), names, arrays or {}

    def constants(self):
        return {self.symbols[0]: self.names}

    def initialize(self, symbol, constants):
        self.held = [c.numpy() for c in constants]

    def get_function(self, name, query_imports=False):
        return self.run if name in self.symbols else None

    def run(self, x, out):
        weight, bias = self.held
        out.numpy()[...] = x.numpy() @ weight.T + bias

    def save(self):
        return {"names.txt": "\n".join([self.symbols[0], *self.names])}

    @classmethod
    def load(cls, members):
        symbol, *names = bytes(members["names.txt"]).decode().split("\n")
        return cls(symbol, names)


class PropertyEngine(Engine):
    """One whose constants are a property, all of them there."""

    @property
    def constant_arrays(self):
        return dict(self.arrays)


@pytest.fixture
def ported(tvm, relay):
    """A module cut for the integration ``ported``, and a function that registers its generator."""
    from byoc.ir.registry import GLOBAL_FUNCTIONS

    tvm.ir.register_op_attr("nn.dense", "target.ported", lambda expr: True)
    tvm.ir.register_op_attr("add", "target.ported", lambda expr: True)
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(3, 4)).astype("float32"), rng.normal(size=3).astype("float32")
    x = relay.var("x", shape=(2, 4))
    body = relay.add(relay.nn.dense(x, relay.const(weight)), relay.const(bias))
    mod = tvm.IRModule.from_expr(relay.Function([x], body))
    cut = tvm.transform.Sequential(
        [
            relay.transform.InferType(),
            relay.transform.AnnotateTarget("ported"),
            relay.transform.MergeCompilerRegions(),
            relay.transform.PartitionGraph(),
        ]
    )(mod)
    register_module_loader(KEY, Engine)

    def register(make):
        GLOBAL_FUNCTIONS.register("relay.ext.ported", make, override=True)
        return cut, weight, bias

    yield register
    LOADERS.pop(KEY, None)


def run(tvm, relay, library):
    from tvm.contrib import graph_executor

    data = np.arange(8, dtype="float32").reshape(2, 4)
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.run(x=data)
    return data, module.get_output(0).numpy()


@pytest.mark.parametrize("kind", [Engine, PropertyEngine])
def test_a_module_of_the_vendor_s_own_runs_a_region_with_its_constants(tvm, relay, ported, tmp_path, kind):
    def make(func):
        symbol = str(func.attrs.global_symbol)
        held = []
        relay.analysis.post_order_visit(func, lambda e: held.append(e) if isinstance(e, relay.Constant) else None)
        names = [f"{symbol}_const_{k}" for k in range(len(held))]
        return kind(symbol, names, {name: c.data for name, c in zip(names, held, strict=True)})

    cut, weight, bias = ported(make)
    library = relay.build(cut, "llvm")
    data, found = run(tvm, relay, library)
    np.testing.assert_allclose(found, data @ weight.T + bias, rtol=1e-5)
    path = str(tmp_path / "net.so")
    library.export_library(path)
    data, found = run(tvm, relay, tvm.runtime.load_module(path))
    np.testing.assert_allclose(found, data @ weight.T + bias, rtol=1e-5)


def test_constants_that_are_a_property_without_all_of_them_are_one_sentence(relay, ported):
    symbol = "tvmgen_default_ported_main_0"
    cut, *_ = ported(lambda func: PropertyEngine(symbol, [f"{symbol}_const_0"]))
    with pytest.raises(CompileError, match="constant_arrays of PropertyEngine cannot be set, expected an attribute"):
        relay.build(cut, "llvm")


def test_a_module_that_names_no_symbols_is_told_the_line_to_write(relay, ported):
    class Nameless(Engine):
        def __init__(self, symbol):
            super().__init__(symbol, [])
            self.symbols = ()

        def constants(self):
            return {}

    cut, *_ = ported(lambda func: Nameless(str(func.attrs.global_symbol)))
    said = r"symbols of its module for .* has nothing, expected the region's name, as in self.symbols = \('tvmgen_"
    with pytest.raises(CompileError, match=said):
        relay.build(cut, "llvm")


def test_a_function_with_other_fields_keeps_the_rest(tvm, relay):
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    first = relay.Function([x], relay.exp(x)).with_attr("Compiler", "ported")
    other = relay.function.FunctionWithFields(first, params=[y], body=relay.tanh(y))
    assert other.attrs["Compiler"] == "ported" and list(other.params) == [y]
    expected = relay.Function([y], relay.tanh(y)).with_attr("Compiler", "ported")
    tvm.ir.assert_structural_equal(other, expected)
    assert relay.FunctionWithFields(first, attrs={}).attrs.get("Compiler") is None


def test_a_walk_in_post_order_meets_each_operator_before_its_first_arguments(relay, tvm):
    x = relay.var("x", shape=(2,))
    inner = relay.Function([x], relay.exp(relay.exp(x))).with_attr("Composite", "ported.two")
    y = relay.var("y", shape=(2,))
    met = []
    relay.analysis.post_order_visit(relay.tanh(relay.Call(inner, [y])), met.append)
    assert [e.name for e in met if isinstance(e, tvm.ir.Op)] == ["tanh", "exp"]
    assert [type(e).__name__ for e in met] == ["Op", "Var", "Op", "Call", "Call", "Function", "Var", "Call", "Call"]


def test_functions_of_a_module_are_given_sorted_by_name(tvm, relay):
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule({relay.GlobalVar(n): relay.Function([x], relay.exp(x)) for n in ("main", "b", "a")})
    assert [var.name_hint for var, _ in mod.functions_items()] == ["a", "b", "main"]


def test_functions_of_the_runtime_are_found_where_tvm_s_python_has_them(tvm):
    import tvm.testing.aot

    assert tvm.runtime._ffi_api.CSourceModuleCreate is tvm.get_global_func("runtime.CSourceModuleCreate")
    with pytest.raises(NotImplementedError, match="tvm.runtime._ffi_api.NoSuch"):
        tvm.runtime._ffi_api.NoSuch()
    assert tvm.testing.aot.get_dtype_range("int8") == (-128, 127)


def test_the_vendor_s_file_is_named_and_not_ours(tvm, relay, ported):
    from byoc.contract import get_backend
    from byoc.testing.core.vendor import written_in

    ported(lambda func: None)
    assert written_in(get_backend("ported")) == __name__
