"""Policy score over a plan's units: verdicts become kernels, and every unit gets a place with its reasons."""

import pytest

from byoc.contract import Reason, Verdict
from byoc.errors import PartitionError
from byoc.partition.places import KernelRegistry, Place, PlacementUnit, register_kernel, score_places

YES = Verdict(True, "nn.conv2d")
NO = Verdict(False, "nn.conv2d", ("Conv_12",), (Reason("dtype", "float32 only", "int8"),))


@pytest.fixture
def chips(backend):
    """Two backends: one with half precision first, one with floats."""
    half = backend("chiphalf", [])
    half.places = lambda: ("chiphalf/fp16/NHWC", "chiphalf/float/NCHW")
    full = backend("chipfull", [])
    full.places = lambda: ("chipfull/float/any",)
    return half, full


def unit(operator="nn.conv2d", **verdicts):
    return PlacementUnit(operator, verdicts, ("float32", "float32"), ("float32",), frozenset([1]), ("Conv_12",))


def test_each_unit_gets_the_first_place_that_has_a_kernel_for_it(chips):
    wish = ["chiphalf/fp16/NHWC", "chipfull", "host"]
    units = [unit(chiphalf=YES, chipfull=YES), unit(chiphalf=NO, chipfull=YES), unit(chiphalf=NO, chipfull=NO)]
    found = score_places(units, wish, KernelRegistry())
    assert [str(p.place) for p in found] == ["chiphalf/fp16/NHWC", "chipfull/float/any", "host/any/any"]
    assert found[0].reasons == ()
    assert found[1].reasons == ("no chiphalf kernel for nn.conv2d: float32 only, got int8",)
    assert [r.split(":")[0] for r in found[2].reasons] == [
        "no chiphalf kernel for nn.conv2d",
        "no chipfull kernel for nn.conv2d",
    ]
    text = str(found[1])
    assert "nn.conv2d (Conv_12)" in text and "float32 only, got int8" in text and text.count("winner") == 1
    assert len(found[0].explanation.rows) == 4 * 3


def test_the_order_of_the_wish_decides(chips):
    both = [unit(chiphalf=YES, chipfull=YES)]
    assert score_places(both, ["chiphalf", "chipfull", "host"], KernelRegistry())[0].place.target == "chiphalf"
    assert score_places(both, ["chipfull", "chiphalf", "host"], KernelRegistry())[0].place.target == "chipfull"
    assert score_places(both, ["host", "chiphalf"], KernelRegistry())[0].place.target == "host"


def test_a_precision_that_is_wished_for_first_is_had(chips):
    for first, rest in (("chiphalf/fp16/NHWC", "chiphalf"), ("chiphalf", "chiphalf/fp16/NHWC")):
        for formula in ("document", "code"):
            (found,) = score_places([unit(chiphalf=YES)], [first, rest, "host"], KernelRegistry(), formula)
            assert found.place == Place.parse(first)


def test_without_a_host_the_error_names_unit_places_and_reasons(chips):
    with pytest.raises(PartitionError) as error:
        score_places([unit(chiphalf=NO)], ["chiphalf", "chiphalf/fp16/NHWC"], KernelRegistry())
    words = ("nn.conv2d (Conv_12)", "chiphalf/float/NCHW", "chiphalf/fp16/NHWC", "float32 only, got int8")
    assert all(word in str(error.value) for word in words)


def test_a_place_that_nobody_serves_is_passed_over_and_reported(chips):
    words = (
        "nobody has a kernel for place chiphalf/int8/NCHW; places of chiphalf: chiphalf/fp16/NHWC, chiphalf/float/NCHW"
    )
    wish = ["chiphalf/int8", "chiphalf/fp16/NHWC", "host"]
    (found,) = score_places([unit(chiphalf=YES)], wish, KernelRegistry())
    assert str(found.place) == "chiphalf/fp16/NHWC" and found.explanation.by_first_wish
    assert found.reasons == (words,) and words in str(found)
    with pytest.raises(PartitionError, match=words):
        score_places([unit(chiphalf=YES)], ["chiphalf/int8"], KernelRegistry())


def test_a_place_of_a_target_without_kernels_is_refused(chips):
    with pytest.raises(PartitionError, match="nobody has a kernel for place cuda/float/NCHW"):
        score_places([unit(chiphalf=YES)], ["cuda", "host"], KernelRegistry())
    with pytest.raises(PartitionError, match="twice"):
        score_places([unit(chiphalf=YES)], ["host", "host"], KernelRegistry())


def test_a_registered_kernel_needs_the_verdict_of_its_target(chips):
    registry = KernelRegistry()
    register_kernel("nn.conv2d", "chiphalf/int8", "fast", registry=registry).bind_input("X").bind_input("W").finalize()
    wish = ["chiphalf/int8", "host"]
    assert score_places([unit(chiphalf=NO)], wish, registry)[0].place.target == "host"
    accepted = score_places([unit(chiphalf=YES)], wish, registry)[0]
    assert accepted.place.target == "chiphalf" and accepted.kernel.place.precision == "float"  # no int8 for floats


def test_units_of_one_kind_keep_their_own_names_and_reasons(chips):
    other = Verdict(False, "nn.conv2d", (), (Reason("size", "at most 4 channels", "8"),))
    a, b = (
        unit(chiphalf=NO),
        PlacementUnit(
            "nn.conv2d", {"chiphalf": other}, ("float32", "float32"), ("float32",), frozenset([1]), ("Conv_13",)
        ),
    )
    found = score_places([a, b], ["chiphalf", "host"], KernelRegistry())
    assert "float32 only" in found[0].reasons[0] and "at most 4 channels" in found[1].reasons[0]
    assert "Conv_12" in str(found[0]) and "Conv_13" in str(found[1])
