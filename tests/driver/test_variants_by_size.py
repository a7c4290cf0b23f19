"""Where sizes are free, a region's kernels are chosen when it first runs with certain sizes, and kept for them."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc

pytestmark = pytest.mark.needs_opencl
RNG = np.random.default_rng(8)


def model():
    """A convolution of 64 channels in groups and a sum over each image, with a free number of images."""
    weight = numpy_helper.from_array(np.random.default_rng(1).standard_normal((64, 1, 3, 3)).astype("float32"), "w")
    axes = numpy_helper.from_array(np.array([1, 2, 3]), "axes")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1], strides=[2, 2], group=4),
            helper.make_node("Relu", ["c"], ["r"], "relu"),
            helper.make_node("ReduceSum", ["r", "axes"], ["y"], "total", keepdims=0),
        ],
        "g",
        [value("x", TensorProto.FLOAT, ["N", 4, 16, 16])],
        [value("y", TensorProto.FLOAT, ["N"])],
        [weight, axes],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def test_variants_are_chosen_once_for_each_size_and_give_the_same_numbers(tmp_path):
    reference = byoc.compile(model(), ["c"])
    library = byoc.compile(model(), ["opencl", "c"], backend_options={"opencl": {"schedules": "gpu"}})
    assert library.variants == []  # nothing is chosen before the first run
    chosen, counts = {}, []
    for batch in (1, 1, 64, 1, 64, 3000):
        x = RNG.standard_normal((batch, 4, 16, 16)).astype("float32")
        np.testing.assert_allclose(library(x), reference(x), rtol=2e-4, atol=1e-4)
        chosen = {dict(c.sizes)["N"]: c.variants for c in library.variants}
        counts.append(sum(c.times for c in library.variants))
    assert counts == [1, 1, 2, 2, 2, 3]
    assert {batch: set(names) for batch, names in chosen.items()} == {
        1: {"tile2", "rows"},
        64: {"tile8", "rows"},
        3000: {"tile8", "rows"},
    }
    assert library.variants[0].to_json()["symbol"].startswith("tvmgen_")
    loaded = byoc.runtime.load(library.save(tmp_path / "m.byoc"))
    x = RNG.standard_normal((1, 4, 16, 16)).astype("float32")
    np.testing.assert_array_equal(loaded(x), library(x))
    assert [c.variants for c in loaded.variants] == [chosen[1]]


def test_known_sizes_leave_one_kernel_a_step():
    library = byoc.compile(model(), ["opencl", "c"], shapes={"x": [2, 4, 16, 16]})
    plans = [plan for m in library.module.imports for plan in getattr(m, "plans", ())]
    assert plans and all(len(launch.variants) == 1 for plan in plans for launch in plan.launches)
