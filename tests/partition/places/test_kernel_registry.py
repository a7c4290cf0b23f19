"""Kernels are registered like overloads, with a type for each input and output."""

import re

import pytest

from byoc.contract import Verdict
from byoc.errors import PartitionError, RegistryError
from byoc.partition.place import Place
from byoc.partition.places.kernel import KERNELS, kernel, register_kernel
from byoc.partition.places.score import PlacementUnit, derived_kernels
from byoc.partition.places.tensor_type import TensorTy, conflicts, fits

CONV2D_PLACES = (
    "arm/int8/NCHW",
    "arm/float/NCHW",
    "arm/float/NHWC",
    "opencl/float/NCHW",
    "opencl/float/ImageDefault",
)


def test_the_five_convolutions_are_listed_as_they_were_registered(documented_kernels):
    assert [str(k.place) for k in documented_kernels.of("conv2d")] == list(CONV2D_PLACES)
    assert [k.order for k in documented_kernels] == [0, 1, 2, 3, 4]
    assert {k.alias for k in documented_kernels} == {"def"}


def test_a_key_that_is_taken_names_both_places_of_registration(registry):
    register_kernel("conv2d", "arm", registry=registry).finalize()
    with pytest.raises(RegistryError) as error:
        register_kernel("conv2d", Place("arm", "float", "NCHW", 0), registry=registry).finalize()
    lines = re.findall(r"test_kernel_registry\.py:(\d+)", str(error.value))
    assert len(lines) == 2 and int(lines[1]) > int(lines[0]) and "alias" in str(error.value)


def test_an_alias_or_a_device_distinguishes_kernels_of_one_place(registry):
    register_kernel("conv2d", "opencl", registry=registry).finalize()
    register_kernel("conv2d", "opencl", "winograd", registry=registry).finalize()
    register_kernel("conv2d", Place("opencl", device=1), registry=registry).finalize()
    assert [(k.alias, k.place.device) for k in registry.of("conv2d")] == [("def", 0), ("winograd", 0), ("def", 1)]


def test_unregistering_leaves_no_trace(registry):
    first = register_kernel("conv2d", "arm", registry=registry).finalize()
    second = register_kernel("relu", "arm", registry=registry).finalize()
    registry.remove(second)
    registry.remove(first)
    assert len(registry) == 0 and list(registry) == [] and registry.of("conv2d") == ()
    assert registry.__dict__["_by_op"] == {}
    assert register_kernel("conv2d", "arm", registry=registry).finalize().order == 0
    with pytest.raises(RegistryError, match="relu"):
        registry.remove(second)


def test_temporary_kernels_are_gone_afterwards_even_when_something_raises():
    before = list(KERNELS)
    with pytest.raises(ZeroDivisionError), KERNELS.temporary():
        register_kernel("toy.relu", "arm").finalize()
        assert len(KERNELS.of("toy.relu")) == 1
        raise ZeroDivisionError
    assert list(KERNELS) == before


def test_nothing_is_registered_before_finalize(registry):
    register_kernel("conv2d", "arm", registry=registry).bind_input("X")
    assert len(registry) == 0


def test_a_type_has_target_precision_layout_and_device():
    ty = TensorTy("kOpenCL", "kFP16", "kNHWC", 1)
    assert (ty.target, ty.precision, ty.layout, ty.device) == ("opencl", "fp16", "NHWC", 1)
    assert ty != TensorTy("opencl", "fp16", "NHWC", 0) and hash(ty) == hash(TensorTy("opencl", "fp16", "NHWC", 1))
    assert TensorTy.at(Place("opencl", "fp16", "NHWC", 1)) == ty


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        ("arm", "host", ()),
        ("x86", "arm", ()),
        ("host", "any", ()),
        ("opencl", "any", ()),
        ("opencl", "host", ("target",)),
        ("opencl", "cuda", ("target",)),
        ("opencl", "opencl/float/NCHW/1", ("target",)),
        ("host", "host/fp16", ("precision",)),
        ("host", "host/any", ()),
        ("host/any", "host/int8", ()),
        ("host", "host/float/NHWC", ("layout",)),
        ("host", "host/float/any", ()),
        ("opencl/float/ImageDefault", "opencl/float/any", ("layout",)),
        ("host", "opencl/fp16/NHWC", ("target", "precision", "layout")),
    ],
)
def test_types_fit_as_in_paddle_lite(given, wanted, expected):
    a, b = (TensorTy.at(Place.parse(text)) for text in (given, wanted))
    assert conflicts(a, b) == expected and fits(a, b) == (not expected)


def test_layouts_of_four_axes_do_not_concern_other_ranks():
    a, b = TensorTy("host"), TensorTy("host", layout="NHWC")
    assert conflicts(a, b, rank=2) == () and conflicts(a, b, rank=4) == ("layout",)
    assert conflicts(a, TensorTy("host", kind="TensorList")) == ("kind",)


def test_each_argument_has_a_type_and_the_rest_is_as_the_place(registry):
    made = (
        register_kernel("gather", "opencl/fp16/NHWC", registry=registry)
        .bind_input("X")
        .bind_input("Index", precision="int32", target="host")
        .bind_output("Out", "host/float")
        .finalize()
    )
    assert made.input_type("X") == TensorTy("opencl", "fp16", "NHWC")
    assert made.input_type("Index") == TensorTy("host", "int32", "NHWC")
    assert made.output_type("Out") == TensorTy("host", "float", "NCHW")
    assert made.input_type("Unbound") == TensorTy("opencl", "fp16", "NHWC")


def test_the_decorator_registers_the_function():
    with KERNELS.temporary() as registry:

        @kernel("scale", "arm", inputs={"X": None}, outputs={"Out": "arm/fp16"})
        def scale(x):
            return 2 * x

        (made,) = registry.of("scale")
    assert made.run is scale and scale(3) == 6 and made.output_type("Out").precision == "fp16"
    assert "test_kernel_registry.py" in made.where


def test_bad_bindings_are_refused(registry):
    builder = register_kernel("relu", "arm", registry=registry).bind_input("X")
    with pytest.raises(PartitionError, match="twice"):
        builder.bind_input("X")
    with pytest.raises(PartitionError, match="no part 'size'"):
        builder.bind_output("Out", size=3)


def test_overloads_are_resolved_by_their_input_types(registry):
    places = ("arm/int8", "arm", "arm/any", "opencl/fp16")
    kernels = [register_kernel("relu", p, registry=registry).bind_input("X").finalize() for p in places]
    for place, made in zip(places, kernels, strict=True):
        assert registry.resolve("relu", {"X": TensorTy.at(Place.parse(place))}) is made
    assert registry.resolve("relu", {"X": TensorTy("arm", "int32")}) is kernels[2]


def test_no_viable_overload_lists_the_candidates_and_why(registry):
    register_kernel("relu", "arm/int8", registry=registry).bind_input("X").finalize()
    register_kernel("relu", "arm", registry=registry).bind_input("X").bind_input("Slope").finalize()
    with pytest.raises(PartitionError) as error:
        registry.resolve("relu", {"X": TensorTy("opencl", "fp16")})
    lines = str(error.value).splitlines()
    assert lines[0] == "no kernel for call of relu(X: opencl/fp16/NCHW)"
    assert "relu:def@arm/int8/NCHW(X: arm/int8/NCHW)" in lines[1] and "(target, precision)" in lines[1]
    assert "needs input Slope" in lines[2] and all("test_kernel_registry.py" in line for line in lines[1:])
    with pytest.raises(PartitionError, match="nobody registered one"):
        registry.resolve("tanh", {})


def test_equally_good_overloads_are_ambiguous_until_an_alias_is_given(registry):
    for alias in ("direct", "winograd"):
        register_kernel("conv2d", "arm", alias, registry=registry).bind_input("X").finalize()
    with pytest.raises(PartitionError, match="ambiguous") as error:
        registry.resolve("conv2d", {"X": TensorTy("arm")})
    assert str(error.value).count("candidate:") == 2
    assert registry.resolve("conv2d", {"X": TensorTy("arm")}, "winograd").alias == "winograd"


def test_a_backend_offers_a_kernel_at_each_of_its_places(backend, registry):
    toy = backend("toykernels", ["add"])
    assert list(toy.places()) == ["toykernels/any/any"]
    toy.places = lambda: ("toykernels/fp16/NHWC", "toykernels")
    yes = PlacementUnit("add", {"toykernels": Verdict(True, "add")})
    found = derived_kernels(yes, [Place("toykernels"), Place("host")], registry)
    assert [str(k.place) for k in found] == ["toykernels/fp16/NHWC", "toykernels/float/NCHW", "host/any/any"]
    no = PlacementUnit("add", {"toykernels": Verdict(False, "add")})
    assert [k.place.target for k in derived_kernels(no, [Place("toykernels"), Place("host")], registry)] == ["host"]
    special = register_kernel("add", "toykernels", "mine", registry=registry).finalize()
    found = derived_kernels(yes, [Place("toykernels")], registry)
    assert [k.alias for k in found if k.place == special.place] == ["mine"]
    toy.places = lambda: ("arm",)
    with pytest.raises(PartitionError, match="its places are its own target's"):
        derived_kernels(yes, [Place("toykernels")], registry)
