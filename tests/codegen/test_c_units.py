"""Translation units: equal groups are one function, compiled once; a change compiles one group."""

from __future__ import annotations

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.codegen.c.backend import compile_functions
from byoc.codegen.c.emit import emit_library
from byoc.codegen.c.toolchain import compiler as compilers
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.kernel.lower import lower_function
from byoc.ir.span import Span
from byoc.ir.types import Any, TensorType
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Function, const, var

pytestmark = pytest.mark.optimized

MACHINE = Machine(64, 24)


def primitive(make, shape=(4, 8), origin=""):
    """``make(x)`` as one group, that computes the ONNX node *origin*."""
    x = var("x", TensorType(shape))
    body = make(x)
    if origin:
        body.span = Span.named(origin)
    return infer_function(Function([x], body, attrs={"Primitive": 1}))


def layer(weight, scale=2.0):
    """A matrix product with a constant of its own, scaled."""
    return lambda x: relay.multiply(relay.nn.dense(x, const(np.full((8, 8), weight, "float32"))), const(scale))


def source_of(**functions):
    return emit_library([lower_function(f, symbol) for symbol, f in functions.items()], MACHINE)


def test_groups_that_differ_in_their_constants_and_names_alone_are_one_function():
    source = source_of(a=primitive(layer(1.0), origin="MatMul_0"), b=primitive(layer(3.0), origin="MatMul_7"))
    (unit,) = source.units
    assert source.text().count(f"void {unit.name}(") == 1
    assert "from MatMul_0, MatMul_7 */" in source.text()
    assert "MatMul" not in unit.source()


@pytest.mark.parametrize(
    "other",
    [
        lambda: primitive(layer(1.0, scale=5.0)),
        lambda: primitive(layer(1.0), (5, 8)),
        lambda: primitive(lambda x: relay.multiply(relay.nn.dense(x, x), const(2.0))),
        lambda: primitive(layer(1.0), (Any("n"), 8)),
    ],
    ids=["a number", "a shape", "no constant", "a named size"],
)
def test_groups_that_compute_something_else_are_functions_of_their_own(other):
    assert len(source_of(a=primitive(layer(1.0)), b=other()).units) == 2


def test_a_unit_does_not_depend_on_what_stands_beside_it():
    alone = source_of(a=primitive(layer(1.0))).units[0]
    beside = source_of(z=primitive(relay.exp), first=primitive(relay.tanh), m=primitive(layer(2.0))).units[2]
    assert alone.source() == beside.source()


def test_a_name_ends_in_the_hash_of_the_text_and_begins_with_the_operators():
    (unit,) = source_of(a=primitive(layer(1.0))).units
    name, digest = unit.name.rsplit("_", 1)
    assert name == "fused_nn_dense_multiply" and len(digest) == 12 and int(digest, 16) >= 0


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """The sources that the compiler was run on, with an empty cache."""
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "cache"))
    sources, run = [], compilers.CCompiler._compile

    def count(self, source, *rest):
        sources.append(source)
        return run(self, source, *rest)

    monkeypatch.setattr(compilers.CCompiler, "_compile", count)
    return sources


def groups_in(sources):
    """How many of *sources* are groups, which all but the entries are."""
    return sum("void **args" not in s for s in sources)


@pytest.mark.needs_cc
def test_changing_one_operator_compiles_one_group(compiled):
    functions = {"a": primitive(layer(1.0)), "b": primitive(relay.tanh), "c": primitive(relay.exp)}
    compile_functions(functions)
    assert groups_in(compiled) == 3
    compiled.clear()
    compile_functions({**functions, "b": primitive(relay.sigmoid)})
    assert groups_in(compiled) == 1 and any("void sigmoid_" in s for s in compiled)


@pytest.mark.needs_cc
def test_the_same_functions_again_compile_nothing(compiled):
    functions = {"a": primitive(layer(1.0)), "b": primitive(relay.tanh)}
    first = compile_functions(functions)
    compiled.clear()
    assert compile_functions(functions).save() == first.save()
    assert not compiled


@pytest.mark.needs_cc
def test_a_group_that_another_model_has_is_not_compiled_again(compiled):
    compile_functions({"first_model": primitive(layer(1.0))})
    compiled.clear()
    compile_functions({"second_model": primitive(layer(9.0)), "more": primitive(relay.exp)})
    assert groups_in(compiled) == 1


@pytest.mark.needs_cc
def test_repeated_layers_of_a_model_are_compiled_once_and_keep_their_own_weights(compiled):
    x = relay.var("x", shape=(4, 8))
    rng = np.random.default_rng(0)
    weights = [(rng.standard_normal((8, 8)) / 4).astype("float32") for _ in range(5)]
    expr, want = x, (data := rng.standard_normal((4, 8)).astype("float32"))
    for weight in weights:
        expr = relay.tanh(relay.nn.dense(expr, relay.const(weight)))
        want = np.tanh(want @ weight.T)
    library = byoc.compile(relay.transform.InferType()(byoc.IRModule.from_expr(expr)))
    np.testing.assert_allclose(library(data), want, rtol=1e-5, atol=1e-6)
    assert groups_in(compiled) == 1
