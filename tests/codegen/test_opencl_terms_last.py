"""Operands of matrix units that are turned before a product reads them: by what computes them, or by a copy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.opencl import backend
from byoc.codegen.opencl.device.profile import ANY_GPU
from byoc.codegen.opencl.products import candidates
from byoc.codegen.opencl.products.matrix_format import EMULATED, PTX, TF32
from byoc.codegen.opencl.products.matrix_tile import matrix_tiles
from byoc.ir.types import TensorType
from byoc.relay.expr import Function, Var

DEVICE = dataclasses.replace(ANY_GPU, units=132, local_memory=48 << 10, max_group=1024, matrix_units=EMULATED)
COPIED = next(t for t, _ in matrix_tiles(TF32) if str(t) == "32x32" and t.copied)


@pytest.fixture
def units(monkeypatch):
    """Has the backend compile for a device with matrix units, by tiles that copy operands alone where *copied*."""

    def use(copied=True, **changes):
        monkeypatch.setattr(backend, "profile_for", lambda options: dataclasses.replace(DEVICE, **changes))
        if copied:
            pace = candidates.Pace(1.0, 1.0)
            monkeypatch.setattr(candidates, "TILES", ())
            monkeypatch.setattr(
                candidates, "matrix_tiles", lambda format, _: [(dataclasses.replace(COPIED, format=format), pace)]
            )

    return use


def typed(parameters, body):
    return relay.transform.InferType()(relay.IRModule.from_expr(Function(parameters, body)))["main"]


def variables(**shapes):
    return [Var(name, TensorType(shape)) for name, shape in shapes.items()]


def randoms(*shapes):
    rng = np.random.default_rng(5)
    return [rng.standard_normal(s).astype("float32") for s in shapes]


def rounded(values):
    """*values* in tf32, ties away from zero."""
    bits = np.asarray(values, "float32").view("uint32").astype("uint64") + 0x1000 & 0xFFFFE000
    return bits.astype("uint32").view("float32").astype("float64")


def compiled(function, **options):
    return backend.compile_functions({"f": fuse_body(function)}, options)


def run(module, *arrays, shape, dtype="float32"):
    out = np.full(shape, np.nan, dtype)
    module["f"](*arrays, out)
    return out.astype("float64")


def close(got, want, tolerance=2e-6):
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * np.abs(want).max())


def turned(module):
    """How many kernels do nothing but turn."""
    return sum("_turned_of" in line for line in module.get_source().splitlines() if line.startswith("__kernel"))


@pytest.mark.needs_opencl
@pytest.mark.parametrize("columns", [32, 45])
def test_an_input_is_copied_with_its_terms_last(units, columns):
    units()
    a, b = variables(a=(40, 96), b=(96, columns))
    module = compiled(typed([a, b], relay.nn.matmul(a, b)), products="tf32")
    x, y = randoms((40, 96), (96, columns))
    close(run(module, x, y, shape=(40, columns)), rounded(x) @ rounded(y))
    assert turned(module) == 1


@pytest.mark.needs_opencl
def test_both_operands_and_a_batch(units):
    units()
    a, b = variables(a=(3, 64, 40), b=(3, 64, 33))
    body = relay.nn.batch_matmul(a, b, transpose_a=True, transpose_b=False)
    module = compiled(typed([a, b], body), products="tf32")
    x, y = randoms((3, 64, 40), (3, 64, 33))
    close(run(module, x, y, shape=(3, 40, 33)), np.swapaxes(rounded(x), 1, 2) @ rounded(y))
    assert turned(module) == 2


@pytest.mark.needs_opencl
def test_products_of_one_operand_share_its_copy(units):
    units()
    a, b, c = variables(a=(40, 96), b=(96, 48), c=(56, 96))
    body = relay.concatenate([relay.nn.relu(relay.nn.matmul(a, b)), relay.nn.relu(relay.nn.matmul(c, b))], 0)
    module = compiled(typed([a, b, c], body), products="tf32")
    x, y, z = randoms((40, 96), (96, 48), (56, 96))
    want = np.concatenate([rounded(x) @ rounded(y), rounded(z) @ rounded(y)])
    close(run(module, x, y, z, shape=(96, 48)), np.maximum(want, 0))
    assert turned(module) == 1


@pytest.mark.needs_opencl
def test_a_stage_that_the_product_alone_reads_fills_its_memory_so(units):
    """The cast to float16 is one kernel with the exchange of axes."""
    units()
    a, b = variables(a=(40, 96), b=(96, 48))
    halves = [relay.cast(relay.nn.relu(v), "float16") for v in (a, b)]
    module = compiled(typed([a, b], relay.nn.matmul(*halves)), half="memory")
    x, y = randoms((40, 96), (96, 48))
    own = [np.maximum(v, 0).astype("float16").astype("float64") for v in (x, y)]
    close(run(module, x, y, shape=(40, 48), dtype="float16"), own[0] @ own[1], 1e-3)
    assert turned(module) == 0 and "u16[40, 96], " in module.get_source() and ": u16[48, 96] -> " in module.get_source()


@pytest.mark.needs_opencl
def test_a_stage_that_others_read_too_is_copied(units):
    units()
    a, b = variables(a=(40, 96), b=(96, 40))
    shared = relay.exp(b)
    body = relay.nn.matmul(a, shared)
    both = relay.Tuple([body, relay.transpose(shared)])
    module = compiled(typed([a, b], both), products="tf32")
    x, y = randoms((40, 96), (96, 40))
    first, second = np.full((40, 40), np.nan, "float32"), np.full((40, 96), np.nan, "float32")
    module["f"](x, y, first, second)
    close(first, rounded(x) @ rounded(np.exp(y)), 1e-5)
    close(second, np.exp(y).T)
    assert turned(module) == 1


@pytest.mark.needs_opencl
def test_the_image_of_a_convolution(units):
    units()
    (x,), (image, weights) = variables(x=(2, 32, 7, 9)), randoms((2, 32, 7, 9), (16, 32, 3, 3))
    body = relay.nn.conv2d(x, relay.const(weights), kernel_size=(3, 3), channels=16, padding=(1, 1))
    module = compiled(typed([x], body), products="tf32")
    padded = np.pad(rounded(image), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    want = np.einsum("ncyxij,ocij->noyx", windows, rounded(weights))
    close(run(module, image, shape=(2, 16, 7, 9)), want)
    assert turned(module) == 1


@pytest.mark.parametrize(("size", "copies"), [(128, 0), (4096, 1)])
def test_only_a_large_product_pays_for_a_copy(units, size, copies):
    units(copied=False, matrix_units=PTX)
    a, b = variables(a=(size, size), b=(size, size))
    assert turned(compiled(typed([a, b], relay.nn.matmul(a, b)), products="tf32")) == copies


def test_terms_that_are_no_sectors_stay_where_they_are(units):
    units(copied=False, matrix_units=PTX, warpgroups=True)
    a, b = variables(a=(4096, 4092), b=(4092, 4096))
    assert turned(compiled(typed([a, b], relay.nn.matmul(a, b)), products="tf32")) == 0
