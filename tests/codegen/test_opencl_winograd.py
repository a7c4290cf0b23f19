"""Convolutions by Winograd's method on a device: as GPUs have it, run on whatever is here, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc import relay
from byoc.codegen.c.winograd.options import ERRORS
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.opencl.device.profile import ANY_GPU
from byoc.codegen.opencl.emit import emit_programs
from byoc.errors import CompileError
from byoc.runtime.opencl.devices import open_device
from byoc.runtime.opencl.launches import Launch

BY_WINOGRAD = ["winograd_tiles", "product", "winograd_outputs"]
H100 = replace(ANY_GPU, units=132, local_memory=48 << 10, max_group=1024)
AS_GIVEN = {"pads": [1, 1, 1, 1]}


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def model(shape, filters, attributes, behind=(), weights=None, value=0.0) -> bytes:
    """A convolution of ``x``, of *shape*, and then the nodes *behind*, each (kind, inputs)."""
    channels = shape[1] // attributes.get("group", 1)
    kernel = attributes.get("kernel_shape", [3, 3])
    constants = {"w": draw(filters, channels, *kernel) if weights is None else weights, "b": draw(filters)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y0"], **attributes)]
    if value:
        pads = [0, 0, *attributes["pads"][:2], 0, 0, *attributes["pads"][2:]]
        constants |= {"pads": np.array(pads, "int64"), "value": np.float32(value)}
        unpadded = {k: v for k, v in attributes.items() if k != "pads"}
        nodes = [
            helper.make_node("Pad", ["x", "pads", "value"], ["p"]),
            helper.make_node("Conv", ["p", "w", "b"], ["y0"], **unpadded),
        ]
    for k, (kind, inputs) in enumerate(behind):
        nodes.append(helper.make_node(kind, [f"y{k}", *inputs], [f"y{k + 1}"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))
    y = helper.make_tensor_value_info(f"y{len(behind)}", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        nodes, "g", [x], [y], [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def compiled(data: bytes, **options: object) -> byoc.Library:
    return byoc.compile(data, targets=["opencl"], backend_options={"opencl": {"schedules": "gpu", **options}})


def schedules_of(library: byoc.Library) -> list[str]:
    """What kind each launched kernel is."""
    plans = [plan for m in library.module.walk() if m.type_key == "opencl" for plan in m.plans]
    found = [launch.variants[0].schedule for plan in plans for launch in plan.launches]
    return ["product" if name.startswith("product") else name for name in found]


def check(library: byoc.Library, data: bytes, shape: tuple[int, ...], error: float) -> None:
    x = draw(*shape)
    (wanted,) = onnxruntime.InferenceSession(data).run(None, {"x": x})
    np.testing.assert_allclose(np.asarray(library(x)), wanted, rtol=0, atol=2 * error * np.abs(wanted).max())


@pytest.mark.needs_opencl
@pytest.mark.parametrize("outputs", [2, 4])
@pytest.mark.parametrize(
    ("shape", "filters", "pads"),
    [
        ((1, 16, 12, 16), 8, [1, 1, 1, 1]),
        ((3, 5, 9, 13), 24, [1, 1, 1, 1]),
        ((2, 8, 11, 6), 15, [0, 0, 0, 0]),
        ((1, 6, 10, 7), 16, [2, 0, 1, 2]),
        ((4, 4, 3, 3), 64, [1, 1, 1, 1]),
    ],
    ids=str,
)
def test_every_size_and_padding(shape, filters, pads, outputs):
    data = model(shape, filters, {"pads": pads}, [("Relu", [])])
    library = compiled(data, winograd=f"f{outputs}")
    assert schedules_of(library) == BY_WINOGRAD
    check(library, data, shape, ERRORS[outputs])


@pytest.mark.needs_opencl
def test_what_follows_is_done_where_the_tiles_are_transformed_back_and_the_artefact_runs(tmp_path):
    shape = (2, 8, 10, 10)
    data = model(shape, 8, AS_GIVEN, [("Sigmoid", []), ("Add", ["x"]), ("Relu", [])])
    library = compiled(data, winograd="f4")
    assert schedules_of(library) == BY_WINOGRAD
    check(byoc.load(library.save(tmp_path / "conv.byoc")), data, shape, ERRORS[4])


@pytest.mark.needs_opencl
def test_convolutions_one_after_another():
    shape = (1, 8, 14, 14)
    first, second = draw(12, 8, 3, 3) / 9, draw(8, 12, 3, 3) / 9
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, list(shape)) for n in "xy")
    graph = helper.make_graph(
        nodes, "g", [x], [y], [numpy_helper.from_array(a, n) for n, a in (("v", first), ("w", second))]
    )
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    library = compiled(data, winograd="f2")
    assert schedules_of(library) == BY_WINOGRAD * 2
    check(library, data, shape, 4 * ERRORS[2])


@pytest.mark.needs_opencl
@pytest.mark.parametrize(
    ("attributes", "value"),
    [
        ({"pads": [1, 1, 1, 1], "strides": [2, 2]}, 0.0),
        ({"pads": [2, 2, 2, 2], "dilations": [2, 2]}, 0.0),
        ({"pads": [2, 2, 2, 2], "kernel_shape": [5, 5]}, 0.0),
        ({"pads": [1, 1, 1, 1], "group": 2}, 0.0),
        (AS_GIVEN, 1.5),
    ],
    ids=str,
)
def test_other_convolutions_stay_sums_of_products(attributes, value):
    shape = (1, 8, 12, 12)
    data = model(shape, 16, attributes, value=value)
    library = compiled(data, winograd="f2")
    assert not set(BY_WINOGRAD) - {"product"} & set(schedules_of(library))
    check(library, data, shape, ERRORS[4])


@pytest.mark.needs_opencl
def test_weights_that_have_no_finite_transform_stay():
    weights = draw(8, 8, 3, 3)
    weights[0, 0, 1, 1] = np.inf
    library = compiled(model((1, 8, 12, 12), 8, AS_GIVEN, weights=weights), winograd="f2")
    assert not set(BY_WINOGRAD) - {"product"} & set(schedules_of(library))


@pytest.mark.needs_opencl
def test_the_error_that_is_allowed_decides_which_tiles_there_are():
    data = model((1, 8, 12, 12), 8, AS_GIVEN)
    assert schedules_of(compiled(data, winograd="f4", max_error=1e-6)) == ["product"]
    with pytest.raises(CompileError, match="option 'winograd' of backend opencl is one of auto, off, f2, f4, got 'f3'"):
        compiled(data, winograd="f3")


def launches(batch: int, channels: int, size: int) -> Sequence[Launch]:
    """The kernels of a convolution for a large GPU."""
    x = relay.var("x", shape=(batch, channels, size, size))
    weights = relay.const(draw(channels, channels, 3, 3))
    body = relay.nn.conv2d(x, weights, padding=(1, 1), kernel_size=(3, 3), channels=channels)
    typed = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], body)))["main"]
    _, (plan,) = emit_programs([lower_function(fuse_body(typed), "f")], H100)
    return plan.launches


@pytest.mark.parametrize(("batch", "channels", "size"), [(8, 256, 56), (1, 320, 64), (32, 128, 28)])
def test_many_channels_over_many_positions_take_it(batch, channels, size):
    first, *_, last = (launch.variants[0].schedule for launch in launches(batch, channels, size))
    assert (first, last) == ("winograd_tiles", "winograd_outputs")


@pytest.mark.parametrize(("batch", "channels", "size"), [(1, 64, 56), (1, 128, 28), (1, 256, 14), (1, 512, 7)])
def test_one_small_image_is_over_before_two_more_kernels_have_started(batch, channels, size):
    assert "winograd_tiles" not in [launch.variants[0].schedule for launch in launches(batch, channels, size)]


def test_what_each_kernel_computes_and_moves_is_counted():
    batch, channels, size = 8, 256, 56
    first, products, last = (launch.work for launch in launches(batch, channels, size))
    tiles = batch * (size // 4) ** 2
    image, between = 4 * batch * channels * size**2, 4 * 36 * channels * tiles
    assert (first.operations, first.bytes) == (0, image + between)
    assert products.operations == 2 * 36 * channels**2 * tiles
    assert (last.operations, last.bytes) == (0, image + between)


@pytest.mark.needs_opencl
def test_a_processor_takes_the_option_too():
    if open_device().info.kind != "cpu":
        pytest.skip("kernels for processors want a device that is one")
    data = model((1, 32, 28, 28), 32, AS_GIVEN)
    texts = {}
    for way in ("off", "f4"):
        library = byoc.compile(
            data, targets=["opencl"], backend_options={"opencl": {"schedules": "cpu", "winograd": way}}
        )
        check(library, data, (1, 32, 28, 28), ERRORS[4])
        texts[way] = "".join(m.get_source() for m in library.module.walk() if m.type_key == "opencl")
    assert texts["off"] != texts["f4"]
