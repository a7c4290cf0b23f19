"""Places are values with names, an order and a text."""

import itertools
import pickle

import pytest

from byoc.errors import PartitionError, RegistryError
from byoc.partition.place import (
    TARGETS,
    DataLayout,
    Place,
    Precision,
    dtype_of,
    in_host_memory,
    precision_of,
    register_target,
)


def test_a_target_alone_is_a_float_NCHW_place_on_device_0():
    assert Place("opencl") == Place("opencl", "float", "NCHW", 0)
    assert hash(Place("opencl")) == hash(Place("opencl", "float", "NCHW", 0))


def test_text_round_trips_for_every_combination():
    for target, precision, layout, device in itertools.product(("arm", "host", "any"), Precision, DataLayout, (0, 3)):
        place = Place(target, precision, layout, device)
        assert Place.parse(str(place)) == place


def test_a_shorter_text_is_completed_and_of_takes_both():
    assert Place.parse("opencl/fp16") == Place("opencl", "fp16") == Place.of("opencl/fp16")
    assert Place.of(Place("arm")) == Place("arm")


def test_the_device_is_part_of_equality_hash_and_order():
    first, second = Place("opencl", device=0), Place("opencl", device=1)
    assert first != second and len({first, second}) == 2 and first < second


def test_places_are_frozen_ordered_and_can_be_pickled():
    place = Place("opencl", "fp16", "NHWC", 2)
    with pytest.raises(AttributeError):
        place.target = "arm"
    assert sorted([Place("x86"), Place("arm", "int8"), Place("arm")]) == [
        Place("arm"),
        Place("arm", "int8"),
        Place("x86"),
    ]
    assert pickle.loads(pickle.dumps(place)) == place


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (("kARM", "kFP32", "kNCHW"), ("arm", "float", "NCHW")),
        (("kX86", "kFloat", "kNHWC"), ("x86", "float", "NHWC")),
        (("kCUDA", "kInt8", "kAny"), ("cuda", "int8", "any")),
        (("kOpenCL", "kFP16", "kImageDefault"), ("opencl", "fp16", "ImageDefault")),
        (("opencl", "float16", "nchw"), ("opencl", "fp16", "NCHW")),
    ],
)
def test_the_names_of_paddle_lite_are_understood(theirs, ours):
    assert Place(*theirs) == Place(*ours)


@pytest.mark.parametrize(
    ("arguments", "legal"),
    [
        (("openc1",), ["opencl", "arm", "host", "json"]),
        (("arm", "fp17"), ["float", "fp16", "int8", "any"]),
        (("arm", "float", "NCWH"), ["NCHW", "NHWC", "ImageDefault", "any"]),
    ],
)
def test_an_unknown_name_lists_the_legal_ones(arguments, legal):
    with pytest.raises(PartitionError) as error:
        Place(*arguments)
    assert repr(arguments[-1]) in str(error.value) and all(name in str(error.value) for name in legal)


@pytest.mark.parametrize("text", ["", "a/b/c/d/e", "arm//NCHW", "arm/float/NCHW/x", "arm/float/NCHW/-1"])
def test_a_text_that_is_no_place_is_refused(text):
    with pytest.raises(PartitionError):
        Place.parse(text)


@pytest.mark.parametrize("device", [-1, 2**15, True, "0"])
def test_a_device_is_a_small_number(device):
    with pytest.raises(PartitionError, match="device"):
        Place("arm", device=device)


def test_a_target_may_be_added_and_a_backend_is_one(backend):
    with pytest.raises(PartitionError, match="toyplace"):
        Place("toyplace")
    backend("toyplace", ["add"])
    assert Place("toyplace").target == "toyplace" and in_host_memory("toyplace")
    register_target("toychip")
    try:
        assert not in_host_memory(Place("toychip").target)
        with pytest.raises(RegistryError, match="twice"):
            register_target("toychip")
    finally:
        TARGETS.unregister("toychip")


def test_precisions_are_those_of_dtypes():
    assert precision_of("float32") == Precision.FLOAT and dtype_of(Precision.BF16) == "bfloat16"
    for dtype in ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int64", "bool"):
        assert dtype_of(precision_of(dtype)) == dtype
    assert {Precision.FLOAT: 1}["float"] == 1  # a name and its text are one key
