"""Unknown operator names: in ready constraints, kernel tables and declared kernels, reported when used."""

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import PatternEntry, constraint, get_backend, register_backend
from byoc.contract.constraints import dtypes, operators
from byoc.errors import PartitionError
from byoc.ir.op import OPS, register_op
from byoc.ir.op_parts import Implementation
from byoc.kernels import KERNELS, CSource, KernelBackend, kernel
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.runtime.json import KernelTable
from byoc.runtime.json.table import TABLES
from byoc.testing import certify


@pytest.fixture(autouse=True)
def declared():
    tables = set(TABLES)
    with KERNELS.temporary():
        yield
    for name in set(TABLES) - tables:
        del TABLES[name]


def model(body):
    x = relay.var("x", shape=(2,))
    return byoc.IRModule.from_expr(relay.Function([x], body(x)))


@constraint("operator")
def anything(call):
    """anything"""
    return None


def backend(forget, conditions=(anything,), table="numpy", rows=()):
    kind = type(
        "Chip",
        (JsonBackend,),
        {"name": "names_chip", "table": table, "constraints": conditions, "patterns": lambda self: rows},
    )
    register_backend(kind)
    forget("names_chip")


PAIR = PatternEntry("names_chip.pair", is_op("exp")(is_op("nn.relu")(wildcard())))


def test_a_ready_constraint_on_an_operator_that_there_is_not_names_the_nearest(forget):
    backend(forget, (dtypes("float32"), operators("add", "nn.rellu")))
    message = "backend 'names_chip': its constraint 'operator' is about 'nn.rellu', .*; the nearest: nn.relu"
    for _ in range(2):
        with pytest.raises(PartitionError, match=message):
            byoc.plan(model(relay.nn.relu), ["names_chip", "c"])


def test_a_constraint_of_a_pattern_is_looked_at_too(forget):
    backend(forget, rows=[PatternEntry("names_chip.pair", PAIR.pattern, [operators("names_chip.pairs")])])
    with pytest.raises(PartitionError, match="about 'names_chip.pairs', .*; the nearest: names_chip.pair"):
        get_backend("names_chip")


def test_composites_of_its_own_and_of_other_backends_are_known(forget):
    backend(forget, (operators("nn.relu", "names_chip.pair", "blas.dense_bias"),), rows=[PAIR])
    assert get_backend("names_chip").name == "names_chip"


def test_an_operator_that_a_vendor_registers_later_is_known_when_the_backend_is_used(forget):
    backend(forget, (operators("names_chip_op"),))
    register_op("names_chip_op", inputs=("x",), rel=lambda types, attrs: types[0], doc="x")
    try:
        assert get_backend("names_chip").name == "names_chip"
    finally:
        OPS.unregister("names_chip_op")


def test_a_kernel_of_a_table_for_an_operator_that_there_is_not_is_reported_whenever_it_comes(forget):
    table = KernelTable("names_table")
    table.kernel("nn.relu")(lambda x: np.maximum(x, 0))
    table.kernel("names_chip.pair")(lambda x: np.exp(np.maximum(x, 0)))
    backend(forget, table="names_table", rows=[PAIR])
    assert get_backend("names_chip").name == "names_chip"

    @table.kernel("nn.rellu")
    def rellu(x):
        return x

    with pytest.raises(
        PartitionError, match=r"the kernel .*test_operator_names.py:.*rellu of table 'names_table' is ab"
    ):
        byoc.compile(model(relay.nn.relu), ["names_chip", "c"])


def test_a_kernel_of_a_table_may_stand_for_the_operators_that_share_it(forget):
    register_op(
        "names_op",
        inputs=("x",),
        rel=lambda types, attrs: types[0],
        doc="x",
        compute=Implementation(kernel="names_shared"),
    )
    try:
        KernelTable("names_table").kernel("names_shared", "image.resample")(lambda x: x)
        backend(forget, table="names_table")
        assert get_backend("names_chip").name == "names_chip"
    finally:
        OPS.unregister("names_op")


def test_a_declared_kernel_for_an_operator_that_there_is_not_is_reported_when_it_is_planned():
    kernel("nn.relu", "xpu/float/any")(lambda x: np.maximum(x, 0))
    assert byoc.plan(model(relay.nn.relu), ["xpu", "c"]).regions
    kernel("nn.rellu", "xpu/float/any")(lambda x: x)
    message = r"backend 'xpu': the kernel nn.rellu:def@xpu/.* \(.*test_operator_names.py:\d+\) is about 'nn.re"
    with pytest.raises(PartitionError, match=f"{message}.*; the nearest: nn.relu"):
        byoc.plan(model(relay.nn.relu), ["xpu", "c"])


def test_declared_kernels_beside_a_generator_may_run_its_composites(forget):
    backend(forget, rows=[PAIR])
    kernel("names_chip.pair", "names_chip/float/any")(lambda x: np.exp(np.maximum(x, 0)))
    assert byoc.plan(model(lambda x: relay.exp(relay.nn.relu(x))), ["names_chip", "c"]).regions
    kernel("names_chip.pear", "names_chip/float/any")(lambda x: x)
    with pytest.raises(PartitionError, match="about 'names_chip.pear'.*; the nearest: names_chip.pair"):
        byoc.plan(model(relay.nn.relu), ["names_chip", "c"])


@pytest.mark.parametrize("kind", ["table", "declared"])
def test_a_pattern_that_no_kernel_runs_is_not_certified(forget, kind):
    """A failure of its own row; everything that has a kernel is covered."""
    if kind == "table":
        KernelTable("names_table").kernel("nn.relu")(lambda x: np.maximum(x, x.dtype.type(0)))
        backend(forget, JsonBackend.constraints, "names_table", [PAIR])
    else:
        register_backend(type("Chip", (KernelBackend,), {"name": "names_chip", "patterns": lambda self: [PAIR]}))
        forget("names_chip")
        kernel("nn.relu", "names_chip/float/any")(lambda x: np.maximum(x, x.dtype.type(0)))
    found = certify("names_chip", saved=False, skip=["fallback"], only=["nn.relu", "names_chip.pair"])
    assert not found.ok and [c.operator for c in found.failures] == ["names_chip.pair"], str(found)
    assert "nothing runs its composite, which is refused: " in str(found) and found.covered == ("nn.relu",)


SOFTMAX_C = "void KERNEL(const float *x, float *out SIZES) { out[0] = x[0] * ATTR_axes_0 * ATTR_axis; }"
WRONG_ATTRIBUTE = "computes by the attribute 'axes', which nn.softmax does not have; the nearest: axis"


def with_default(x, *, axes: int = -1):
    return x


def without(x, *, axes: int):
    return x


@pytest.mark.parametrize("function", [with_default, without])
def test_an_attribute_that_the_operator_lacks_is_named_with_a_default_too(forget, function):
    KernelTable("names_table").kernel("nn.softmax")(function)
    backend(forget, (operators("nn.softmax"),), table="names_table")
    message = r"backend 'names_chip': the kernel 'nn.softmax' of table 'names_table' \(.*test_operator_names.py:\w+\) "
    with pytest.raises(PartitionError, match=message + WRONG_ATTRIBUTE):
        byoc.plan(model(relay.nn.softmax), ["names_chip", "c"])


@pytest.mark.parametrize("run", [with_default, without, CSource(SOFTMAX_C.replace("axes_0", "axes"))])
def test_so_is_one_of_a_declared_kernel(run):
    kernel("nn.softmax", "arm/float/any")(run)
    with pytest.raises(PartitionError, match=r"backend 'arm': the kernel .*" + WRONG_ATTRIBUTE):
        byoc.plan(model(relay.nn.softmax), ["arm", "c"])


def test_an_operator_without_attributes_has_none_to_name(forget):
    KernelTable("names_table").kernel("tanh")(with_default)
    backend(forget, (operators("tanh"),), table="names_table")
    with pytest.raises(PartitionError, match="the attribute 'axes', which tanh does not have; it has: none"):
        get_backend("names_chip")


def test_elements_of_an_attribute_are_the_attributes_own(forget):
    text = "void KERNEL(const float *x, float *out SIZES) { out[0] = x[0] * ATTR_strides_0 + ATTR_padding_3; }"
    kernel("nn.max_pool2d", "arm/float/any")(CSource(text))
    assert get_backend("arm").name == "arm"
