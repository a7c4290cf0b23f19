"""Products whose operands are packed for matrix units, emulated on whatever device is here, and what chooses them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.opencl import backend
from byoc.codegen.opencl import packed_products as choice
from byoc.codegen.opencl.device.profile import ANY_GPU
from byoc.codegen.opencl.packed.layout import LeftLayout, RightLayout
from byoc.codegen.opencl.packed.packing import PackedSource, packing_stage
from byoc.codegen.opencl.products.matrix_format import EMULATED, PTX
from byoc.ir.types import TensorType
from byoc.relay.expr import Function, Var
from byoc.runtime.opencl.drivers import newer_ptx
from byoc.te import Index, Tensor
from byoc.te.evaluate import evaluate

DEVICE = dataclasses.replace(
    ANY_GPU, units=132, local_memory=48 << 10, max_group=1024, matrix_units=EMULATED, warpgroups=True
)
SIZES = [(128, 64, 128), (200, 100, 150), (130, 37, 129), (256, 192, 384)]


@pytest.fixture
def units(monkeypatch):
    """Has the backend compile for a device with such units, and pack whatever can be."""

    def use(gain=1e9, **changes):
        monkeypatch.setattr(backend, "profile_for", lambda options: dataclasses.replace(DEVICE, **changes))
        monkeypatch.setattr(choice, "GAIN", gain)

    return use


def typed(parameters, body):
    return relay.transform.InferType()(relay.IRModule.from_expr(Function(parameters, body)))["main"]


def compiled(function, **options):
    return backend.compile_functions({"f": fuse_body(function)}, options)


def schedules(module):
    return [v.schedule for plan in module.plans for launch in plan.launches for v in launch.variants]


def rounded(values, dtype):
    """*values* as numbers of a unit: ties away from zero for tf32."""
    if dtype != "tf32":
        return values.astype(dtype).astype("float64")
    bits = np.asarray(values, "float32").view("uint32").astype("uint64") + 0x1000 & 0xFFFFE000
    return bits.astype("uint32").view("float32").astype("float64")


def randoms(*shapes):
    rng = np.random.default_rng(5)
    return [rng.standard_normal(s).astype("float32") for s in shapes]


@pytest.mark.parametrize("layout", [LeftLayout, RightLayout])
@pytest.mark.parametrize(("lanes", "terms", "per_word"), [(128, 64, 2), (130, 100, 2), (256, 33, 1)])
def test_what_stands_where_is_said_three_times_alike(layout, lanes, terms, per_word):
    own, array = (
        layout(lanes, terms, per_word),
        np.arange(1.0, lanes * terms + 1, dtype="float32").reshape(lanes, terms),
    )
    packed = own.packed(array)
    assert packed.shape == own.shape
    source = Tensor("source", (lanes, terms), "float32")
    axes = Index("lane", lanes), Index("term", terms)
    stage = packing_stage(PackedSource(source[axes], *axes, by_lane=False), source, own, "packed")
    np.testing.assert_array_equal(evaluate(stage, {source: array}), packed)
    back = Tensor("back", (lanes, terms), "float32", axes, stage[own.place(*axes)])
    np.testing.assert_array_equal(evaluate(back, {source: array}), array)


@pytest.mark.needs_opencl
@pytest.mark.parametrize("constant", [False, True], ids=["both computed", "weights"])
@pytest.mark.parametrize(("rows", "terms", "columns"), SIZES)
def test_products_of_tf32(units, rows, terms, columns, constant):
    units()
    x, w, bias = randoms((rows, terms), (terms, columns), (columns,))
    a, b = Var("a", TensorType((rows, terms))), Var("b", TensorType((terms, columns)))
    right = relay.const(w) if constant else b
    body = relay.nn.relu(relay.nn.matmul(a, right) + relay.const(bias))
    module = compiled(typed([a] if constant else [a, b], body), products="tf32")
    assert schedules(module) == [*(["pack"] if constant else ["pack", "pack"]), "packed128x128"]
    out = np.full((rows, columns), np.nan, "float32")
    module["f"](*([x] if constant else [x, w]), out)
    want = np.maximum(rounded(x, "tf32") @ rounded(w, "tf32") + bias, 0)
    np.testing.assert_allclose(out, want, rtol=0, atol=1e-5 * np.abs(want).max())


@pytest.mark.needs_opencl
@pytest.mark.parametrize(("rows", "terms", "columns"), SIZES)
def test_halves_are_made_while_they_are_packed(units, rows, terms, columns):
    units()
    x, y = randoms((rows, terms), (columns, terms))
    a, b = Var("a", TensorType((rows, terms))), Var("b", TensorType((columns, terms)))
    halves = [relay.cast(relay.nn.relu(v), "float16") for v in (a, b)]
    body = relay.nn.dense(*halves, out_dtype="float32")
    module = compiled(typed([a, b], body))
    assert schedules(module) == ["pack", "pack", "packed128x128"]
    out = np.full((rows, columns), np.nan, "float32")
    module["f"](x, y, out)
    left, right = (rounded(np.maximum(v, 0), "float16") for v in (x, y))
    np.testing.assert_allclose(out, left @ right.T, rtol=0, atol=1e-5 * np.abs(out).max())


@pytest.mark.needs_opencl
def test_an_operand_of_several_products_is_packed_once(units):
    units()
    x, w, v = randoms((130, 70), (70, 140), (70, 140))
    a = Var("a", TensorType((130, 70)))
    shared = relay.nn.relu(a)
    both = relay.Tuple(
        [relay.nn.relu(relay.nn.matmul(shared, relay.const(w))), relay.tanh(relay.nn.matmul(shared, relay.const(v)))]
    )
    module = compiled(typed([a], both), products="tf32")
    assert schedules(module).count("pack") == 1 and "packed128x128" in schedules(module)
    first, second = (np.full((130, 140), np.nan, "float32") for _ in range(2))
    module["f"](x, first, second)
    e = rounded(np.maximum(x, 0), "tf32")
    np.testing.assert_allclose(first, np.maximum(e @ rounded(w, "tf32"), 0), rtol=0, atol=1e-3)
    np.testing.assert_allclose(second, np.tanh(e @ rounded(v, "tf32")), rtol=0, atol=1e-4)


@pytest.mark.needs_opencl
def test_what_is_done_with_the_sums_may_read_an_operand_too(units):
    units()
    (x,), size = randoms((130, 130)), 130
    a = Var("a", TensorType((size, size)))
    halves = relay.nn.relu(a)
    body = relay.nn.matmul(halves, relay.const(x)) + halves
    module = compiled(typed([a], body), products="tf32")
    assert "packed128x128" in schedules(module)
    out = np.full((size, size), np.nan, "float32")
    module["f"](x, out)
    positive = np.maximum(x, 0)
    np.testing.assert_allclose(out, rounded(positive, "tf32") @ rounded(x, "tf32") + positive, rtol=0, atol=1e-3)


@pytest.mark.needs_opencl
def test_a_square_operand_is_packed_for_each_order_of_its_axes(units):
    units()
    x, w, v = randoms((140, 140), (140, 140), (140, 140))
    a = Var("a", TensorType((140, 140)))
    shared = relay.nn.relu(a)
    first = relay.nn.matmul(shared, relay.const(w))
    second = relay.nn.matmul(relay.transpose(shared), relay.const(v))
    module = compiled(typed([a], relay.Tuple([first, second])), products="tf32")
    assert schedules(module).count("packed128x128") == 2
    found = [np.full((140, 140), np.nan, "float32") for _ in range(2)]
    module["f"](x, *found)
    own = rounded(np.maximum(x, 0), "tf32")
    for got, want in zip(found, (own @ rounded(w, "tf32"), own.T @ rounded(v, "tf32")), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("rows", "terms", "columns", "packs"), [(4096, 4096, 4096, True), (256, 4096, 256, False), (4096, 64, 64, False)]
)
def test_only_a_large_product_is_packed(units, rows, terms, columns, packs):
    units(choice.GAIN, matrix_units=PTX)
    a, b = Var("a", TensorType((rows, terms))), Var("b", TensorType((terms, columns)))
    module = compiled(typed([a, b], relay.nn.matmul(a, b)), products="tf32")
    assert ("packed128x128" in schedules(module)) == packs
    source = module.get_source()
    assert (newer_ptx.MACRO in source and "cp.async.bulk" in source) == packs


@pytest.mark.parametrize("changes", [{"warpgroups": False}, {"matrix_units": ""}], ids=["one warp", "no units"])
def test_other_devices_have_no_packed_products(units, changes):
    units(**changes)
    a, b = (Var(n, TensorType((512, 512))) for n in "ab")
    module = compiled(typed([a, b], relay.nn.matmul(a, b)), products="tf32")
    assert "pack" not in schedules(module)
