"""Products in tiles on a device: every tile, sizes that no tile divides, every kind of convolution, free sizes.

The code is that for GPUs, run on whatever device is here; what it gives is compared with sums in float64.
"""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.kernel.collapse import collapse_axes
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.backend import compile_functions
from byoc.codegen.opencl.device import profile
from byoc.codegen.opencl.device.profile import ANY_GPU, DeviceProfile
from byoc.codegen.opencl.products import candidates, split, tile
from byoc.codegen.opencl.products.shape import block_product
from byoc.ir.types import Any, TensorType
from byoc.relay.expr import Function, Var

GPU = {"schedules": "gpu"}


def run(function: Function, *arrays: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, list[str]]:
    """What *function* gives on the device, from memory full of NaN, and the schedules of its kernels."""
    module = compile_functions({"f": fuse_body(function)}, GPU)
    out = np.full(shape, np.nan, "float32")
    module["f"](*arrays, out)
    (chosen,) = module.variants
    return out, list(chosen.variants)


def dense(rows, columns, terms) -> Function:
    x, w = Var("x", TensorType((rows, terms))), Var("w", TensorType((columns, terms)))
    return Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))


def randoms(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.random.standard_normal(s).astype("float32") for s in shapes]


def close(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max() * np.sqrt(want.ndim))


@pytest.mark.needs_opencl
@pytest.mark.parametrize("one", [t for t, _ in tile.TILES], ids=str)
@pytest.mark.parametrize("sizes", [(128, 128, 64), (67, 129, 35)], ids=str)
def test_every_tile_computes_sizes_that_it_divides_and_others(monkeypatch, one, sizes):
    monkeypatch.setattr(candidates, "TILES", ((one, tile.Pace(1.0, 1.0)),))
    monkeypatch.setattr(profile, "ANY_GPU", DeviceProfile("gpu", 16, 48 << 10, 256))  # what the largest takes
    rows, columns, terms = sizes
    x, w = randoms((rows, terms), (columns, terms))
    got, kernels = run(dense(*sizes), x, w, shape=(rows, columns))
    assert kernels[0] == f"product{one}"
    close(got, np.maximum(x.astype("float64") @ w.T.astype("float64"), 0))


@pytest.mark.needs_opencl
@pytest.mark.parametrize("parts", [2, 3, 8])
def test_sums_in_parts_are_the_same_sums(monkeypatch, parts):
    of = candidates.candidates
    monkeypatch.setattr(split, "candidates", lambda p, profile, _: of(p, profile, (parts,)))
    x, w = randoms((20, 480), (36, 480))
    got, kernels = run(dense(20, 36, 480), x, w, shape=(20, 36))
    assert len(kernels) == 2 and kernels[0].startswith("product") and kernels[1] == "item"
    close(got, np.maximum(x.astype("float64") @ w.T.astype("float64"), 0))


def convolution(x, w, strides, padding, dilation, groups) -> np.ndarray:
    """ONNX's Conv over any number of dimensions, in float64."""
    x = np.pad(x.astype("float64"), [(0, 0), (0, 0), *((p, p) for p in padding)])
    kernel = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, kernel, tuple(range(2, x.ndim)))
    view = view[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]
    view = view[(..., *(slice(None, None, d) for d in dilation))]
    n, c, *places = view.shape[: x.ndim]
    view = view.reshape(n, groups, c // groups, *places, *w.shape[2:])
    weights = w.astype("float64").reshape(groups, w.shape[0] // groups, *w.shape[1:])
    letters = "xyz"[: len(kernel)], "klm"[: len(kernel)]
    result = np.einsum(f"ngc{letters[0]}{letters[1]},goc{letters[1]}->ngo{letters[0]}", view, weights)
    return result.reshape(n, w.shape[0], *places)


CONVOLUTIONS = {
    "3x3": ((2, 20, 9, 11), (24, 20, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "strided": ((1, 16, 15, 15), (40, 16, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    "dilated": ((1, 8, 12, 12), (16, 8, 3, 3), (1, 1), (2, 2), (2, 2), 1),
    "1x1": ((2, 64, 7, 7), (70, 64, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "1x1 strided": ((1, 32, 14, 14), (16, 32, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    "7x7 of three channels": ((1, 3, 32, 32), (16, 3, 7, 7), (2, 2), (3, 3), (1, 1), 1),
    "deep": ((1, 256, 5, 5), (64, 256, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "grouped": ((1, 24, 10, 10), (32, 6, 3, 3), (1, 1), (1, 1), (1, 1), 4),
    "depthwise": ((1, 24, 10, 10), (24, 1, 3, 3), (1, 1), (1, 1), (1, 1), 24),
    "of three dimensions": ((1, 6, 5, 6, 7), (12, 6, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
}


@pytest.mark.needs_opencl
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_every_kind(name):
    image, weights, strides, padding, dilation, groups = CONVOLUTIONS[name]
    x, w = randoms(image, weights)
    op = relay.nn.conv3d if len(strides) == 3 else relay.nn.conv2d
    xs, ws = Var("x", TensorType(image)), Var("w", TensorType(weights))
    y = op(xs, ws, strides=strides, padding=padding, dilation=dilation, groups=groups, kernel_size=weights[2:])
    want = convolution(x, w, strides, padding, dilation, groups)
    got, kernels = run(Function([xs, ws], y), x, w, shape=want.shape)
    assert any(k.startswith("product") for k in kernels) == (name != "depthwise")
    assert len(kernels) <= 2, "padding has no kernel of its own"
    close(got, want)


@pytest.mark.needs_opencl
def test_a_product_of_free_rows_is_right_for_any_number_of_them():
    x, w = Var("x", TensorType((Any("n"), 48))), Var("w", TensorType((40, 48)))
    module = compile_functions({"f": fuse_body(Function([x, w], relay.nn.dense(x, w)))}, GPU)
    for rows in (1, 2, 63, 64, 200):
        a, b = randoms((rows, 48), (40, 48))
        out = np.full((rows, 40), np.nan, "float32")
        module["f"](a, b, out)
        close(out, a.astype("float64") @ b.T.astype("float64"))


@pytest.mark.needs_opencl
def test_batches_of_products_with_both_orders_of_the_second_operand():
    for transposed in (False, True):
        x, w = randoms((3, 33, 20), (3, 50, 20) if transposed else (3, 20, 50))
        xs, ws = Var("x", TensorType(x.shape)), Var("w", TensorType(w.shape))
        y = relay.nn.batch_matmul(xs, ws, transpose_b=transposed)
        got, kernels = run(Function([xs, ws], y), x, w, shape=(3, 33, 50))
        assert kernels[0].startswith("product")
        want = np.matmul(x.astype("float64"), (w.swapaxes(1, 2) if transposed else w).astype("float64"))
        close(got, want)


def _product_of(function: Function):
    (group,) = lower_function(fuse_body(function), "f").groups
    simplify = Simplifier()
    return block_product(collapse_axes(group.stages[-1], simplify), simplify)


def test_rows_columns_and_terms_are_distinguished():
    p = _product_of(dense(20, 30, 40))
    assert p.sizes() == (1, 20, 30, 40)
    assert not p.left.by_lane and not p.right.by_lane, "both operands lie term by term"
    assert _product_of(Function([x := Var("x", TensorType((8, 9)))], relay.sum(relay.multiply(x, x), 1))) is None


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [((512, 49, 4608), True), ((64, 100352, 576), False)],
    ids=["few positions", "many positions"],
)
def test_sums_are_divided_where_tiles_alone_leave_a_device_idle(sizes, parts):
    device = DeviceProfile("gpu", 132, 48 << 10, 1024)
    chosen = candidates.candidates(_product_of(dense(*sizes)), device, (1, 2, 4, 8, 16))[0]
    assert (chosen.parts > 1) == parts


def test_no_tile_takes_more_than_the_device_has():
    p = _product_of(dense(64, 64, 64))
    small = candidates.candidates(p, DeviceProfile("gpu", 4, 9 << 10, 64))
    assert small
    for found in small:
        assert found.tile.items <= 64 and found.tile.local_bytes(4) <= 9 << 10
    assert candidates.candidates(p, ANY_GPU)


@pytest.mark.parametrize("ahead", [1, 2, 3, 4])
@pytest.mark.parametrize("terms", [16, 32, 48, 80, 144, 150])
@pytest.mark.needs_opencl
def test_operands_come_as_many_steps_before_their_own_as_a_tile_says(monkeypatch, ahead, terms):
    one = tile.DeviceTile(16, 16, 16, 2, 2, ahead)
    monkeypatch.setattr(candidates, "TILES", ((one, tile.Pace(1.0, 1.0)),))
    x, w = randoms((20, terms), (18, terms))
    got, _ = run(dense(20, 18, terms), x, w, shape=(20, 18))
    close(got, np.maximum(x.astype("float64") @ w.T.astype("float64"), 0))
