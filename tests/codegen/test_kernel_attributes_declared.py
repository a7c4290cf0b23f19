"""What a vendor's kernel does not declare, and what it gives that the graph does not have, is refused."""

from __future__ import annotations

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import BACKENDS, PatternEntry, callee_name, constraint, register_backend
from byoc.errors import CompileError, KernelError
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.runtime.json import KernelTable
from byoc.runtime.json.table import TABLES

NAME = "test_kernels"
X = np.linspace(-1, 1, 24, dtype="float32").reshape(2, 3, 4)


@pytest.fixture
def table():
    made = KernelTable(NAME)

    @constraint("operator")
    def in_the_table(call):
        """what the table has"""
        return None if callee_name(call) in made else callee_name(call)

    class Kernels(JsonBackend):
        name, table, constraints = NAME, NAME, (in_the_table,)

        def patterns(self):
            soft = is_op("exp")(is_op("nn.softmax")(wildcard()))
            fixed = is_op("negative")(is_op("nn.softmax")(wildcard()).has_attr({"axis": 1}))
            return [PatternEntry(f"{NAME}.soft_exp", soft), PatternEntry(f"{NAME}.soft_negative", fixed)]

    register_backend(Kernels())
    yield made
    TABLES.pop(NAME)
    for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
        registry.unregister(NAME)
    GLOBAL_FUNCTIONS.unregister(f"relay.ext.{NAME}")


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def compiled(build):
    x = relay.var("x", shape=X.shape)
    return byoc.compile(byoc.IRModule.from_expr(relay.Function([x], build(x))), [NAME, "c"])


def test_an_attribute_that_the_kernel_does_not_declare_is_refused_when_the_region_is_compiled(table):
    table.kernel("nn.softmax")(lambda data: softmax(data, -1))
    with pytest.raises(CompileError) as raised:
        compiled(lambda x: relay.nn.softmax(x, axis=1))
    text = str(raised.value)
    for words in (f"backend '{NAME}' failed on", f"{NAME}_main_0", "nn.softmax", "does not declare axis, which is 1"):
        assert words in text
    assert "(*, axis: int)" in text and "**attributes" in text


@pytest.mark.parametrize("axis", [-1, 2])
def test_a_default_however_it_is_written_needs_no_declaration(table, axis):
    table.kernel("nn.softmax")(lambda data: softmax(data, -1))
    np.testing.assert_allclose(compiled(lambda x: relay.nn.softmax(x, axis=axis))(X), softmax(X, -1), rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "numpys"),
    [
        (lambda x, axis: relay.stack([x, x], axis), lambda x, axis=0: np.stack([x, x], axis)),
        (
            lambda x, axis: relay.one_hot(
                relay.cast(x, "int32"), relay.const(np.float32(1)), relay.const(np.float32(0)), 3, axis, "float32"
            ),
            lambda x, axis=-1: np.moveaxis(np.eye(3, dtype="float32")[x.astype("int32")], -1, axis),
        ),
    ],
    ids=["stack", "one_hot"],
)
@pytest.mark.parametrize("axis", range(-4, 4))
def test_a_place_where_an_axis_comes_is_the_default_only_where_it_is(table, build, numpys, axis):
    table.kernel("stack")(lambda first, second: numpys(first))

    @table.kernel("one_hot")
    def one_hot(indices, on, off, *, depth: int):
        return numpys(indices)

    x = np.abs(X).round()
    try:
        library = compiled(lambda v: build(v, axis))
    except CompileError as error:
        assert f"does not declare axis, which is {axis}" in str(error)
        assert numpys(x, axis).shape != numpys(x).shape or not np.array_equal(numpys(x, axis), numpys(x))
        return
    np.testing.assert_array_equal(library(x), numpys(x, axis))


def test_a_kernel_may_take_all_attributes_with_the_types_that_the_operator_has(table):
    seen = {}

    @table.kernel("nn.softmax")
    def any_softmax(data, **attributes):
        seen.update(attributes)
        return softmax(data, attributes["axis"])

    np.testing.assert_allclose(compiled(lambda x: relay.nn.softmax(x, axis=1))(X), softmax(X, 1), rtol=1e-6)
    assert seen == {"axis": 1}


def test_a_composites_kernel_gets_what_it_declares_of_the_operators_in_it_and_the_rest_is_refused(table):
    table.kernel(f"{NAME}.soft_exp")(lambda data: np.exp(softmax(data, -1)))
    build = lambda x: relay.exp(relay.nn.softmax(x, axis=1))  # noqa: E731
    with pytest.raises(CompileError, match=rf"{NAME}.soft_exp.*does not declare axis, which is 1 of nn.softmax"):
        compiled(build)
    del table._kernels[f"{NAME}.soft_exp"]

    @table.kernel(f"{NAME}.soft_exp")
    def soft_exp(data, *, axis: int = -1):
        return np.exp(softmax(data, axis))

    np.testing.assert_allclose(compiled(build)(X), np.exp(softmax(X, 1)), rtol=1e-6)


@pytest.fixture
def says(table):
    """What the backend's composite_attributes makes of what its base class gives."""
    backend, said = BACKENDS[NAME], {}
    base = backend.composite_attributes
    type(backend).composite_attributes = lambda self, composite: {**base(composite), **said}
    yield said


def soft_exp_model(x):
    return relay.exp(relay.nn.softmax(x, axis=1))


def test_a_backend_that_says_nothing_of_a_composite_is_asked_about_its_operators(table, says):
    table.kernel(f"{NAME}.soft_exp")(lambda data: np.exp(softmax(data, -1)))
    with pytest.raises(CompileError, match=rf"{NAME}.soft_exp.*does not declare axis, which is 1 of nn.softmax"):
        compiled(soft_exp_model)


def test_what_a_backend_says_of_a_composite_its_kernel_must_know(table, says):
    says["along"] = 1
    table.kernel(f"{NAME}.soft_exp")(lambda data: np.exp(softmax(data, -1)))
    with pytest.raises(CompileError, match=rf"gives the kernel '{NAME}.soft_exp' .* along, which is 1, and it"):
        compiled(soft_exp_model)
    del table._kernels[f"{NAME}.soft_exp"]

    @table.kernel(f"{NAME}.soft_exp")
    def soft_exp(data, *, along: int):
        return np.exp(softmax(data, along))

    np.testing.assert_allclose(compiled(soft_exp_model)(X), np.exp(softmax(X, 1)), rtol=1e-6)
    says.clear()
    with pytest.raises(CompileError, match="needs along, and composite_attributes gives|does not declare axis"):
        compiled(soft_exp_model)


def test_what_a_pattern_asks_for_its_kernel_knows(table):
    table.kernel(f"{NAME}.soft_negative")(lambda data: -softmax(data, 1))
    got = compiled(lambda x: relay.negative(relay.nn.softmax(x, axis=1)))(X)
    np.testing.assert_allclose(got, -softmax(X, 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        (lambda data: np.exp(data).astype("float64"), r"float64\[2, 3, 4\]"),
        (lambda data: np.exp(data)[:1], r"float32\[1, 3, 4\]"),
    ],
)
@pytest.mark.parametrize("is_last", [True, False])
def test_a_kernel_that_gives_another_dtype_or_shape_is_reported(table, kernel, found, is_last):
    table.kernel("exp")(kernel)
    table.kernel("tanh")(np.tanh)
    library = compiled(lambda x: relay.exp(x) if is_last else relay.tanh(relay.exp(x)))
    with pytest.raises(KernelError, match=rf"region .*on {NAME} failed at launch: kernel exp gave {found}.*float32\[2"):
        library(X)
