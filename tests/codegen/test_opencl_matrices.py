"""Products by matrix units: every tile and format, convolutions, free sizes, halves, and what the report says.

The units are emulated (the same numbers in the same places of local memory, by plain OpenCL C) on whatever device is
here; the operands are rounded as a unit would, and the sums compared with those in float64.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc import relay
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.opencl import backend
from byoc.codegen.opencl.device.profile import ANY_GPU
from byoc.codegen.opencl.products import candidates
from byoc.codegen.opencl.products.matrix_format import BFLOAT16, EMULATED, FLOAT16, FORMATS, PTX, TF32
from byoc.codegen.opencl.products.matrix_tile import matrix_tiles
from byoc.errors import UserError
from byoc.ir.types import Any, TensorType
from byoc.relay.expr import Function, Var
from byoc.runtime.opencl.drivers import newer_ptx

DEVICE = dataclasses.replace(ANY_GPU, units=132, local_memory=48 << 10, max_group=1024, matrix_units=EMULATED)
TILES = [t for t, _ in matrix_tiles(TF32, warpgroups=True)]
SMALL, COPIED = (next(t for t in TILES if str(t) == "32x32" and t.copied == copied) for copied in (False, True))
WAYS = pytest.mark.parametrize("tile", [SMALL, COPIED], ids=["by registers", "copied"])


def rounded(values: np.ndarray, products: str) -> np.ndarray:
    """*values* as the numbers of a unit, ties away from zero for tf32 and to even for bfloat16."""
    bits = np.asarray(values, "float32").view("uint32").astype("uint64")
    if products == "tf32":
        bits = bits + 0x1000 & 0xFFFFE000
    elif products == "bfloat16":
        bits = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
    return bits.astype("uint32").view("float32").astype("float64")


@pytest.fixture
def units(monkeypatch):
    """Has the backend compile for a device with matrix units, by one tile where one is given."""

    def use(tile=None, device=DEVICE):
        monkeypatch.setattr(backend, "profile_for", lambda options: device)
        if tile is not None:
            monkeypatch.setattr(candidates, "TILES", ())
            monkeypatch.setattr(
                candidates,
                "matrix_tiles",
                lambda format, warpgroups: [(dataclasses.replace(tile, format=format), candidates.Pace(1.0, 1.0))],
            )

    return use


def run(function: Function, *arrays: np.ndarray, shape: tuple[int, ...], **options: object) -> np.ndarray:
    """What *function* gives on the device, from memory full of NaN, by a kernel with matrix units."""
    module = backend.compile_functions({"f": fuse_body(function)}, options)
    out = np.full(shape, np.nan, "float32")
    module["f"](*arrays, out)
    (chosen,) = module.variants
    assert any(name.startswith("matrix") for name in chosen.variants), chosen.variants
    return out


def dense(rows, columns, terms, weights: np.ndarray | None = None) -> Function:
    x = Var("x", TensorType((rows, terms)))
    w = Var("w", TensorType((columns, terms))) if weights is None else relay.const(weights)
    return Function([x] if weights is not None else [x, w], relay.nn.relu(relay.nn.dense(x, w)))


def randoms(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(s).astype("float32") for s in shapes]


def close(got: np.ndarray, want: np.ndarray, tolerance: float = 2e-6) -> None:
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * np.abs(want).max())


@pytest.mark.needs_opencl
@pytest.mark.parametrize("tile", TILES, ids=lambda t: t.name)
def test_every_tile_computes_sizes_that_it_does_not_divide(units, tile):
    units(tile)
    x, w = randoms((67, 100), (83, 100))
    got = run(dense(67, 83, 100), x, w, shape=(67, 83), products="tf32")
    close(got, np.maximum(rounded(x, "tf32") @ rounded(w, "tf32").T, 0))


@pytest.mark.needs_opencl
@pytest.mark.parametrize("terms", [16, 64, 77, 128, 152], ids=["one chunk", "lines", "single", "two", "chunks"])
@pytest.mark.parametrize("products", ["tf32", "bfloat16"])
@WAYS
def test_any_number_of_terms(units, products, terms, tile):
    if tile.copied and (terms == 77 or products == "bfloat16"):
        pytest.skip("no chunk of 16 bytes of memory is one of local memory")
    units(tile)
    x, w = randoms((20, terms), (36, terms))
    got = run(dense(20, 36, terms), x, w, shape=(20, 36), products=products)
    close(got, np.maximum(rounded(x, products) @ rounded(w, products).T, 0))


@pytest.mark.needs_opencl
@WAYS
def test_three_products_are_nearly_float32(units, tile):
    units(tile)
    x, w = randoms((40, 96), (33, 96))
    got = run(dense(40, 33, 96), x, w, shape=(40, 33), products="3xtf32")
    want = np.maximum(x.astype("float64") @ w.T.astype("float64"), 0)
    close(got, want, 1e-6)
    once = run(dense(40, 33, 96), x, w, shape=(40, 33), products="tf32")
    assert np.abs(once - want).max() > 30 * np.abs(got - want).max()


@pytest.mark.needs_opencl
@pytest.mark.parametrize("products", FORMATS)
@WAYS
def test_infinities_and_nans_stay_what_they_are(units, products, tile):
    """But for 3xtf32, whose smaller products of an infinity are NaN."""
    if tile.copied and products == "bfloat16":
        pytest.skip("memory has float32")
    units(tile)
    x, w = np.ones((3, 3 * 16), "float32"), np.ones((16, 48), "float32")
    x = np.repeat(x, 6, 0)
    x[0, 5], x[1, 7], x[2, 3] = np.inf, np.nan, -np.inf
    x[3, 3] = np.uint32(0x7FFFFFFF).view("float32")  # the NaN that NVIDIA's arithmetic gives
    function = Function([v := Var("x", TensorType(x.shape)), u := Var("w", TensorType(w.shape))], relay.nn.dense(v, u))
    got = run(function, x, w, shape=(18, 16), products=products)
    want = np.stack([r.sum() * np.ones(16, "float32") for r in x])
    np.testing.assert_array_equal(got, np.where(np.isinf(want), np.nan, want) if products == "3xtf32" else want)


@pytest.mark.needs_opencl
@WAYS
def test_sizes_that_a_call_says(units, tile):
    units(tile)
    x, w = randoms((37, 80), (50, 80))
    got = run(dense(Any("N"), 50, 80), x, w, shape=(37, 50), products="tf32")
    close(got, np.maximum(rounded(x, "tf32") @ rounded(w, "tf32").T, 0))


@pytest.mark.needs_opencl
@pytest.mark.parametrize(
    ("channels", "kernel", "options"),
    [
        (32, 3, {"padding": (1, 1)}),
        (20, 3, {"padding": (1, 1), "strides": (2, 2)}),
        (3, 7, {"padding": (3, 3), "strides": (2, 2)}),
        (64, 1, {}),
        (32, 3, {"padding": (2, 2), "dilation": (2, 2)}),
        (64, 3, {"padding": (1, 1), "groups": 4}),
    ],
    ids=["lines", "chunks", "single", "1x1", "dilated", "groups"],
)
def test_convolutions_with_constant_weights(units, channels, kernel, options):
    onnxruntime = pytest.importorskip("onnxruntime")
    units(SMALL)
    groups = options.get("groups", 1)
    x, w = randoms((2, channels, 13, 13), (32, channels // groups, kernel, kernel))
    body = relay.nn.conv2d(
        Var("x", TensorType(x.shape)), relay.const(w), kernel_size=(kernel, kernel), channels=32, **options
    )
    typed = relay.transform.InferType()(relay.IRModule.from_expr(Function([body.args[0]], body)))["main"]
    shape = tuple(int(d) for d in typed.ret_type.shape)
    got = run(typed, x, shape=shape, products="tf32")
    attributes = {"pads": [*options.get("padding", (0, 0))] * 2, "strides": list(options.get("strides", (1, 1)))}
    attributes |= {"dilations": list(options.get("dilation", (1, 1))), "group": groups}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in (("x", x), ("w", w))]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"], **attributes)], "g", inputs, out)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {n: rounded(a, "tf32").astype("float32") for n, a in (("x", x), ("w", w))})
    close(got, want, 4e-6)


def model_of(dtype: int, path, terms=96):
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    rng = np.random.default_rng(1)
    w = (rng.standard_normal((terms, 50)) / 10).astype(kind)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    x = helper.make_tensor_value_info("x", dtype, [100, terms])
    y = helper.make_tensor_value_info("y", dtype, [100, 50])
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return rng.standard_normal((100, terms)).astype(kind), w


@pytest.mark.needs_opencl
@pytest.mark.parametrize(("terms", "tile"), [(96, SMALL), (77, SMALL), (96, COPIED)])
def test_halves_are_multiplied_as_they_are_without_being_asked_for(units, tmp_path, terms, tile):
    units(tile)
    x, w = model_of(TensorProto.FLOAT16, tmp_path / "m.onnx", terms)
    library = byoc.compile(tmp_path / "m.onnx", targets="opencl", backend_options={"opencl": {"half": "memory"}})
    got = library.run({"x": x})
    (got,) = got.values() if isinstance(got, dict) else got
    want = np.maximum(x.astype("float64") @ w.astype("float64"), 0)
    close(np.asarray(got, "float64"), want, 1e-3)
    assert "load_matrices" not in source_of(library) and "dot_float16(" in source_of(library)


def source_of(library) -> str:
    """The OpenCL C of a library."""
    stack, found = [library.module], []
    while stack:
        module = stack.pop()
        stack += module.imported_modules
        found += [module.get_source()] if module.type_key == "opencl" else []
    return "\n".join(found)


@pytest.mark.needs_opencl
def test_a_saved_model_has_what_was_asked_for_and_the_report_says_so(units, tmp_path):
    units(SMALL)
    x, w = model_of(TensorProto.FLOAT, tmp_path / "m.onnx")
    options = {"opencl": {"products": "tf32"}}
    library = byoc.compile(tmp_path / "m.onnx", targets="opencl", backend_options=options)
    assert "products=tf32: 1 of 1 tiled products are by matrix units" in str(library.report)
    library.save(tmp_path / "m.byoc")
    got = byoc.load(tmp_path / "m.byoc").run({"x": x})
    (got,) = got.values() if isinstance(got, dict) else got
    close(np.asarray(got), np.maximum(rounded(x, "tf32") @ rounded(w, "tf32"), 0))


@pytest.mark.needs_opencl
def test_a_device_without_units_keeps_float32_and_the_report_says_so(units, tmp_path):
    units(device=dataclasses.replace(DEVICE, matrix_units=""))
    x, w = model_of(TensorProto.FLOAT, tmp_path / "m.onnx")
    options = {"opencl": {"products": "bfloat16"}}
    library = byoc.compile(tmp_path / "m.onnx", targets="opencl", backend_options=options)
    assert "products=bfloat16: stay in float32" in str(library.report)
    got = library.run({"x": x})
    (got,) = got.values() if isinstance(got, dict) else got
    close(np.asarray(got), np.maximum(x.astype("float64") @ w.astype("float64"), 0))


@pytest.mark.parametrize("format", [TF32, FLOAT16, BFLOAT16, FORMATS["3xtf32"]], ids=lambda f: f.name)
def test_on_nvidias_devices_instructions_multiply(units, format):
    units(SMALL, device=dataclasses.replace(DEVICE, matrix_units=PTX))
    dtype = "float16" if format is FLOAT16 else "float32"
    x, w = (Var(n, TensorType((128, 256), dtype)) for n in "xw")
    function = Function([x, w], relay.nn.dense(x, w, out_dtype="float32"))
    options = {"half": "memory"} if format is FLOAT16 else {"half": "memory", "products": format.name}
    source = backend.compile_functions({"f": fuse_body(function)}, options).get_source()
    base = {"3xtf32": "tf32"}.get(format.name, format.name)
    kind = {"tf32": "m16n8k8.row.col.f32.tf32.tf32.f32", "float16": "m16n8k16.row.col.f32.f16.f16.f32"}
    assert f"mma.sync.aligned.{kind.get(base, 'm16n8k16.row.col.f32.bf16.bf16.f32')}" in source
    assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in source and f"multiply_{base}(sums" in source


def test_on_nvidias_devices_operands_are_copied_while_others_are_multiplied(units):
    units(COPIED, device=dataclasses.replace(DEVICE, matrix_units=PTX))
    source = backend.compile_functions({"f": fuse_body(dense(128, 256, 512))}, {"products": "tf32"}).get_source()
    assert source.count("cp.async.commit_group") == COPIED.ahead + 1, "before the loop, and in it"
    assert f"cp.async.wait_group {COPIED.ahead - 1};" in source and "rounded_tf32(load_matrices(" in source


@pytest.mark.parametrize("format", [TF32, FLOAT16], ids=lambda f: f.name)
@pytest.mark.parametrize("copied", [True, False], ids=["copied", "by registers"])
def test_four_warps_have_one_instruction_beside_code_for_a_driver_without_it(units, format, copied):
    device = dataclasses.replace(DEVICE, matrix_units=PTX, warpgroups=True)
    tile = next(t for t in TILES if t.warpgroups and t.copied == copied and str(t) == "128x128")
    units(tile, device=device)
    dtype = "float16" if format is FLOAT16 else "float32"
    x, w = (Var(n, TensorType((128, 256), dtype)) for n in "xw")
    function = Function([x, w], relay.nn.dense(x, w, out_dtype="float32"))
    options = {"half": "memory"} if format is FLOAT16 else {"half": "memory", "products": "tf32"}
    source = backend.compile_functions({"f": fuse_body(function)}, options).get_source()
    marked = [line for line in source.splitlines() if "wgmma" in line]
    assert len(marked) == 5 and all(newer_ptx.MARK in line for line in marked), "two of 32 bytes, of a line of 64"
    kind = "k16.f32.f16.f16" if format is FLOAT16 else "k8.f32.tf32.tf32"
    assert sum(f"wgmma.mma_async.sync.aligned.m64n128{kind}" in line for line in marked) == 2
    kernel = source[source.index("__kernel") :]
    newer, older = kernel[kernel.index(f"#ifdef {newer_ptx.MACRO}") : kernel.index("#endif")].split("#else")
    assert "load_matrices(" not in newer and "load_matrices(" in older
    assert ("copy_chunk(" in kernel) == copied and "see_stored();" in kernel


@pytest.mark.needs_opencl
@pytest.mark.parametrize(("columns", "pairs"), [(64, True), (50, True), (51, False)])
def test_neighbours_are_stored_together_where_a_vector_may_begin(units, columns, pairs):
    """With an epilogue, of a bias by column and of another tensor."""
    units(SMALL)
    x, w, b, r = randoms((37, 96), (columns, 96), (columns,), (37, columns))
    names = [Var(n, TensorType(a.shape)) for n, a in (("x", x), ("w", w), ("b", b), ("r", r))]
    body = relay.nn.bias_add(relay.nn.dense(names[0], names[1]), names[2])
    function = Function(names, relay.nn.relu(relay.add(body, names[3])))
    got = run(function, x, w, b, r, shape=(37, columns), products="tf32")
    close(got, np.maximum(rounded(x, "tf32") @ rounded(w, "tf32").T + b + r, 0))
    source = backend.compile_functions({"f": fuse_body(function)}, {"products": "tf32"}).get_source()
    assert ("*(__global float2 *)&" in source) == pairs


@pytest.mark.needs_opencl
@pytest.mark.parametrize(("columns", "pairs"), [(64, True), (51, False)])
def test_halves_are_stored_together_too(units, columns, pairs):
    units(SMALL)
    x, w = (a.astype("float16") for a in randoms((37, 96), (columns, 96)))
    names = [Var(n, TensorType(a.shape, "float16")) for n, a in (("x", x), ("w", w))]
    function = Function(names, relay.nn.relu(relay.nn.dense(*names)))
    module = backend.compile_functions({"f": fuse_body(function)}, {"half": "memory"})
    out = np.full((37, columns), np.nan, "float16")
    module["f"](x, w, out)
    close(out.astype("float64"), np.maximum(x.astype("float64") @ w.T.astype("float64"), 0), 1e-3)
    assert ("*(__global ushort2 *)&" in module.get_source()) == pairs


def test_no_tile_is_copied_whose_operands_memory_has_otherwise(units):
    """A convolution's patches lie apart, with channels that are no sectors; of float32 bfloat16 has other words."""
    device = dataclasses.replace(DEVICE, matrix_units=PTX)
    units(COPIED, device=device)
    function = dense(128, 256, 512)
    for products, copied in (("tf32", True), ("3xtf32", True), ("bfloat16", False)):
        source = backend.compile_functions({"f": fuse_body(function)}, {"products": products}).get_source()
        assert ("copy_chunk(" in source) == copied
    x, w = Var("x", TensorType((1, 20, 13, 13))), relay.const(randoms((32, 20, 3, 3))[0])
    body = relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=32)
    typed = relay.transform.InferType()(relay.IRModule.from_expr(Function([x], body)))["main"]
    source = backend.compile_functions({"f": fuse_body(typed)}, {"products": "tf32"}).get_source()
    assert "copy_chunk(" not in source


@pytest.mark.parametrize("given", ["fp8", 16, None])
def test_other_formats_are_refused(given):
    with pytest.raises(UserError, match=r"opencl\.products is one of float32, tf32, 3xtf32, bfloat16, got"):
        backend.OpenCLBackend().check_options({"products": given})


def test_weights_have_their_terms_last_where_a_unit_reads_them(units):
    units(SMALL)
    x, w = randoms((1, 32, 9, 9), (16, 32, 3, 3))
    body = relay.nn.conv2d(Var("x", TensorType(x.shape)), relay.const(w), kernel_size=(3, 3), channels=16)
    function = fuse_body(Function([body.args[0]], body))
    module = backend.compile_functions({"f": function}, {"products": "tf32"})
    (made,) = module.constant_arrays.values()
    np.testing.assert_array_equal(made.numpy(), np.moveaxis(w, 1, -1))
    module = backend.compile_functions({"f": function}, {})
    (kept,) = module.constant_arrays.values()
    np.testing.assert_array_equal(kept.numpy(), w)


@pytest.mark.needs_opencl
def test_integers_of_two_bytes_are_no_bits_of_bfloat16(units):
    """A cast of uint16 is a number, not the code of one, whatever format products have."""
    units(SMALL)
    codes, (w,) = np.random.default_rng(5).integers(0, 200, (20, 64)).astype("uint16"), randoms((36, 64))
    x, u = Var("x", TensorType((20, 64), "uint16")), Var("w", TensorType((36, 64)))
    function = Function([x, u], relay.nn.dense(relay.cast(x, "float32"), u))
    got = run(function, codes, w, shape=(20, 36), products="bfloat16")
    close(got, codes.astype("float64") @ rounded(w, "bfloat16").T)


@pytest.mark.needs_opencl
def test_operands_in_images_are_multiplied_in_float32(units, tmp_path):
    units(SMALL, dataclasses.replace(DEVICE, image_width=8192, image_height=8192))
    x, w = model_of(TensorProto.FLOAT, tmp_path / "m.onnx")
    options = {"opencl": {"products": "tf32", "mode": "memory=image"}}
    library = byoc.compile(tmp_path / "m.onnx", targets="opencl", backend_options=options)
    (got,) = library.run({"x": x})
    close(got, np.maximum(x.astype("float64") @ w.astype("float64"), 0))
    assert "products=tf32: 0 of" in str(library.report)
