"""Paddle Lite's grade, exactly, and the choice that follows from it."""

import os
import pathlib
import random
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from place_graphs import DOCUMENTED_PLACES, register_conv2d, unary

from byoc.errors import PartitionError
from byoc.partition.place import DataLayout, Place, Precision
from byoc.partition.places.grade import FORMULAS, KernelArgument, KernelRequest, formula_of
from byoc.partition.places.kernel import KernelRegistry, register_kernel
from byoc.partition.places.pick import pick_kernel, valid_places

FLOAT = Precision.FLOAT
CONV2D = KernelRequest(
    "conv2d",
    (KernelArgument("Input", FLOAT), KernelArgument("Filter", FLOAT, True), KernelArgument("Bias", FLOAT, True)),
    (KernelArgument("Output", FLOAT),),
)
# kernel -> the best total and its place, without the gate: the tables of the specification
GOLDEN = {
    "document": {
        "arm/int8/NCHW": (63.6, "arm/float/NCHW"),
        "arm/float/NCHW": (304.0, "opencl/float/NCHW"),
        "arm/float/NHWC": (203.2, "opencl/float/NCHW"),
        "opencl/float/NCHW": (712.0, "opencl/float/NCHW"),
        "opencl/float/ImageDefault": (636.0, "opencl/fp16/ImageDefault"),
        "opencl/fp16/ImageDefault": (445.0, "opencl/fp16/ImageDefault"),
    },
    "code": {
        "arm/int8/NCHW": (127, "arm/float/NCHW"),
        "arm/float/NCHW": (617, "opencl/float/NCHW"),
        "arm/float/NHWC": (416, "opencl/float/NCHW"),
        "opencl/float/NCHW": (1433, "opencl/float/NCHW"),
        "opencl/float/ImageDefault": (1284, "opencl/fp16/ImageDefault"),
        "opencl/fp16/ImageDefault": (1792, "opencl/fp16/ImageDefault"),
    },
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_kernel_grade_gives_the_numbers_of_the_golden_table(documented_kernels, formula):
    register_conv2d(documented_kernels, "opencl/fp16/ImageDefault")
    places, rule = valid_places(DOCUMENTED_PLACES), FORMULAS[formula]
    found = {}
    for kernel in documented_kernels:
        (best,) = [r for r in rule.rows(CONV2D, kernel, places, gate=False) if r.best]
        found[str(kernel.place)] = (float(rule.score(best)), str(best.place))
    assert found == {kernel: (float(score), place) for kernel, (score, place) in GOLDEN[formula].items()}


@pytest.mark.parametrize(("formula", "pick"), [("document", "opencl/float/NCHW"), ("code", "opencl/float/NCHW")])
def test_the_five_kernels_of_paddle_lites_documentation_give_float_NCHW(documented_kernels, formula, pick):
    for gate in (False, True):
        chosen = pick_kernel(
            CONV2D, documented_kernels.of("conv2d"), valid_places(DOCUMENTED_PLACES), formula, gate=gate
        )
        assert str(chosen.kernel.place) == str(chosen.place) == pick and not chosen.by_first_wish


def test_by_points_alone_the_documentation_passes_over_the_first_wish_and_the_code_does_not(documented_kernels):
    register_conv2d(documented_kernels, "opencl/fp16/ImageDefault")
    places = valid_places(DOCUMENTED_PLACES)
    by_points = {
        f: str(pick_kernel(CONV2D, documented_kernels.of("conv2d"), places, f, first_wish=False).place)
        for f in FORMULAS
    }
    assert by_points == {"document": "opencl/float/NCHW", "code": "opencl/fp16/ImageDefault"}


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_first_wish_wins_whenever_a_kernel_exists_for_it(formula):
    rng = random.Random(6)
    served = 0
    for _ in range(300):
        kernels, places, request = random_case(rng)
        usable = [k for k in kernels if request.int8 or k.place.precision != Precision.INT8]
        wished = [k for k in usable if same(k.place, places[0])]
        if not wished:
            continue
        served += 1
        chosen = pick_kernel(request, kernels, places, formula)
        assert chosen.kernel in wished and chosen.by_first_wish and chosen.wish == places[0]
    assert served > 50


def test_an_int8_kernel_is_no_kernel_for_a_float_operator_even_as_first_wish(registry):
    for place in ("arm/int8", "arm"):
        register_conv2d(registry, place)
    places = valid_places(["arm/int8", "arm"])
    assert pick_kernel(CONV2D, registry.of("conv2d"), places).place == Place("arm")
    marked = replace(CONV2D, int8=True)
    assert pick_kernel(marked, registry.of("conv2d"), places).place == Place("arm", "int8")


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_place_on_another_target_never_counts(documented_kernels, formula):
    places, rule = valid_places(DOCUMENTED_PLACES), FORMULAS[formula]
    for kernel in documented_kernels:
        for row in rule.rows(CONV2D, kernel, places):
            other = row.place.target != kernel.place.target
            assert row.gated == other and (row.total == 0) == other and not (row.best and other)


def test_explain_shows_every_row_of_the_score(documented_kernels):
    register_conv2d(documented_kernels, "opencl/fp16/ImageDefault")
    chosen = pick_kernel(CONV2D, documented_kernels.of("conv2d"), valid_places(DOCUMENTED_PLACES), "code")
    assert len(chosen.rows) == 6 * 5
    (winner,) = [r for r in chosen.rows if r.winner]
    assert (winner.target, winner.precision, winner.layout, winner.inputs) == (255, 127, 63, 3)
    assert winner.doubled == ("precisions", "kinds") and winner.weight == 1 and winner.total == 1792
    text = str(chosen)
    assert len(text.splitlines()) == 2 + 30 and text.count("winner") == 1 and "another target" in text
    assert "the preferred place" in text.splitlines()[0] and "1433.6" in text


def test_the_discrepancies_are_decided_as_documented():
    document = FORMULAS["document"]
    assert document.divisors == (1, 2, 4) and document.most == 255
    assert [document.most // d for d in document.divisors] == [255, 127, 63]
    with pytest.raises(PartitionError, match="document, code"):
        formula_of("kernel grade")


def test_the_documentations_int_maximum_chooses_the_same_kernels():
    rng, wide = random.Random(66), replace(FORMULAS["document"], most=2**31 - 1)
    same_choice = 0
    for _ in range(200):
        kernels, places, request = random_case(rng)
        if not any(k.place.target == p.target for k in kernels for p in places):
            continue
        small = pick_kernel(request, kernels, places, "document", first_wish=False)
        large = pick_kernel(request, kernels, places, wide, first_wish=False)
        assert abs(float(score_of(large)) / (2**31 - 1) - float(score_of(small)) / 255) < 0.02
        same_choice += small.kernel is large.kernel
    assert same_choice > 150  # they part only where 255 // 2 and 255 // 4 round differently


def score_of(chosen):
    return max(r.total for r in chosen.rows if r.kernel is chosen.kernel)


def test_the_device_gives_no_points_and_comes_from_the_wish(registry):
    made = register_kernel("relu", "opencl", registry=registry).finalize()
    request = KernelRequest("relu")
    rows = FORMULAS["code"].rows(request, made, valid_places(["opencl/float/NCHW/1", "opencl"]))
    assert rows[0].points == rows[1].points
    assert pick_kernel(request, [made], valid_places(["opencl/float/NCHW/1"])).place.device == 1


def test_int8_operators_are_not_asked_for_the_precisions_of_their_inputs():
    kernels = KernelRegistry()
    int8, f32 = register_conv2d(kernels, "arm/int8"), register_conv2d(kernels, "arm")
    marked, places = replace(CONV2D, int8=True), valid_places(["arm/int8", "arm"])
    for kernel in (int8, f32):
        for row in FORMULAS["code"].rows(marked, kernel, places):
            assert row.inputs == 0 and row.doubled == ("kinds",)
    assert FORMULAS["code"].rows(CONV2D, int8, places)[0].precision == 0
    assert FORMULAS["code"].rows(marked, int8, places)[0].precision == 127


def test_opencl_products_are_doubled_where_their_weights_are_wanted():
    kernels, rule, places = KernelRegistry(), FORMULAS["code"], valid_places(["opencl"])

    def doubled(op, y, persistable, target="opencl"):
        with kernels.temporary():
            made = register_kernel(op, target, registry=kernels).bind_input("X").bind_input("Y", target=y).finalize()
            request = KernelRequest(op, (KernelArgument("X", FLOAT), KernelArgument("Y", FLOAT, persistable)))
            return "opencl products" in rule.rows(request, made, places)[0].doubled

    assert doubled("matmul", "host", True) and doubled("matmul_v2", "host", True)
    assert doubled("matmul", "opencl", False)
    assert not doubled("matmul", "opencl", True) and not doubled("matmul", "host", False)
    assert not doubled("fc", "host", True) and not doubled("matmul", "host", True, target="arm")


def test_kinds_are_compared_but_for_weights_and_operators_with_graphs():
    kernels, rule, places = KernelRegistry(), FORMULAS["code"], valid_places(["arm"])
    made = register_kernel("stack", "arm", registry=kernels).bind_input("X", kind="TensorList").finalize()

    def doubled(**request):
        argument = {k: request.pop(k) for k in ("kind", "persistable") if k in request}
        asked = KernelRequest("stack", (KernelArgument("X", FLOAT, **argument),), **request)
        return "kinds" in rule.rows(asked, made, places)[0].doubled

    assert doubled(kind="TensorList") and not doubled(kind="Tensor") and doubled(persistable=True)
    assert not doubled(kind="TensorList", opaque=True)


# an oracle: the loops of static_kernel_pick_pass.h and of the documentation, written as there

LAYOUTS = (DataLayout.NCHW, DataLayout.NHWC, DataLayout.ANY)
PRECISIONS = (FLOAT, Precision.FP16, Precision.INT8, Precision.ANY)
TARGETS = ("arm", "opencl", "x86", "any")


def same(a, b):
    pairs = ((a.target, b.target), (a.precision, b.precision), (a.layout, b.layout))
    return all(x == y or "any" in (x, y) for x, y in pairs)


def random_place(rng):
    return Place(rng.choice(TARGETS), rng.choice(PRECISIONS), rng.choice(LAYOUTS))


def random_case(rng):
    registry = KernelRegistry()
    count = rng.randint(1, 6)
    for n in range(count):
        builder = register_kernel("op", random_place(rng), f"alias{n}", registry=registry)
        for name in ("X", "Y"):
            if rng.random() < 0.7:
                builder.bind_input(name, precision=rng.choice(PRECISIONS))
        if rng.random() < 0.5:
            builder.bind_output("Out", precision=rng.choice(PRECISIONS))
        builder.finalize()
    places = list(dict.fromkeys(random_place(rng) for _ in range(rng.randint(1, 5))))
    inputs = tuple(
        KernelArgument(
            n, rng.choice(PRECISIONS[:3]), rng.random() < 0.3, rng.choice(("Tensor", "Tensor", "TensorList"))
        )
        for n in ("X", "Y")[: rng.randint(0, 2)]
    )
    request = KernelRequest(
        "op",
        inputs,
        (KernelArgument("Out", rng.choice(PRECISIONS[:3])),),
        rng.random() < 0.2,
        rng.random() < 0.1,
        rng.random() < 0.1,
    )
    return registry.of("op"), places, request


def oracle_code(request, kernel, places, gate):  # noqa: C901
    final = np.float32(-1)
    for i, place in enumerate(places):
        if gate and place.target != kernel.place.target and "any" not in (place.target, kernel.place.target):
            continue
        weight = np.float32(len(places) - i) / np.float32(len(places))
        score = 0
        if place.target == kernel.place.target or "any" in (place.target, kernel.place.target):
            score += 255
        if place.precision == kernel.place.precision or "any" in (place.precision, kernel.place.precision):
            if not (kernel.place.precision == "int8" and not request.int8):
                score += 127
        if place.layout == kernel.place.layout or "any" in (place.layout, kernel.place.layout):
            score += 63
        if not request.int8:
            match = True
            if request.feeds:
                for argument in request.outputs:
                    if kernel.output_type(argument.name).precision != argument.precision:
                        match = False
            else:
                for argument in request.inputs:
                    declared = kernel.input_type(argument.name).precision
                    both = {str(declared), str(argument.precision)} == {"fp16", "float"}
                    if declared == argument.precision or declared == "any" or both:
                        score += 1
                    else:
                        match = False
            if match:
                score *= 2
        if not request.opaque:
            kinds = [a.kind == kernel.input_type(a.name).kind for a in request.inputs if not a.persistable]
            if all(kinds):
                score *= 2
        if weight * np.float32(score) > final:
            final = weight * np.float32(score)
    return None if final < 0 else int(final)


def oracle_document(request, kernel, places, gate):
    final = None
    for i, place in enumerate(places):
        if gate and place.target != kernel.place.target and "any" not in (place.target, kernel.place.target):
            continue
        score = 0
        score += 255 if place.target == kernel.place.target else 0
        score += 127 if place.precision == kernel.place.precision else 0
        score += 63 if place.layout == kernel.place.layout else 0
        declared = [kernel.input_type(a.name).precision == a.precision for a in request.inputs]
        declared += [kernel.output_type(a.name).precision == a.precision for a in request.outputs]
        if all(declared):
            score *= 2
        total = Fraction(len(places) - i, len(places)) * score
        final = total if final is None else max(final, total)
    return final


@pytest.mark.parametrize(("gate", "count"), [(True, 2000), (False, 500)])
@pytest.mark.parametrize(("formula", "oracle"), [("code", oracle_code), ("document", oracle_document)])
def test_the_choice_equals_brute_force_on_2000_random_cases(formula, oracle, gate, count):
    rng = random.Random(5)
    impossible = 0
    for _ in range(count):
        kernels, places, request = random_case(rng)
        scores = [oracle(request, k, places, gate) for k in kernels]
        eligible = [s for s in scores if s is not None]
        if not eligible:
            impossible += 1
            with pytest.raises(PartitionError, match="no kernel for op"):
                pick_kernel(request, kernels, places, formula, gate=gate, first_wish=False)
            continue
        expected = kernels[scores.index(max(eligible))]
        chosen = pick_kernel(request, kernels, places, formula, gate=gate, first_wish=False)
        assert chosen.kernel is expected
    assert impossible > 50 if gate else impossible == 0


def test_ties_go_to_the_kernel_that_was_registered_first(registry):
    made = [register_kernel("relu", "arm", alias, registry=registry).finalize() for alias in ("z", "a", "m")]
    for kernels in (made, made[::-1]):
        assert pick_kernel(KernelRequest("relu"), kernels, valid_places(["arm"])).kernel is made[0]


def test_neither_kernels_nor_casts_depend_on_the_seed_of_hashes():
    code = (
        "import random, sys; sys.path.insert(0, sys.argv[1]); import test_kernel_grade as t, test_casts as c\n"
        "rng = random.Random(1)\n"
        "for _ in range(40):\n"
        "    kernels, places, request = t.random_case(rng)\n"
        "    print(t.pick_kernel(request, kernels, places, gate=False))\n"
        "    graph = c.random_graph(rng, c.random_kernels(rng), 6)\n"
        "    print(c.insert_casts(graph).casts)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, str(pathlib.Path(__file__).parent)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and len(outputs.pop()) > 1000


def test_an_operator_without_opencl_kernel_lands_on_the_trailing_place_and_says_so(registry):
    unary(registry, "a", "opencl")
    unary(registry, "a", "arm")
    on_arm = unary(registry, "b", "arm")
    places = ["opencl/fp16/ImageDefault", "opencl", "opencl/any/NCHW", "opencl/any/any", "arm"]
    wish = valid_places(places)
    a, b = (pick_kernel(KernelRequest(op, label=op.upper()), registry.of(op), wish) for op in "ab")
    assert [a.place.target, b.place.target] == ["opencl", "arm"]
    assert b.kernel is on_arm and a.reasons == ()
    assert b.reasons == ("no opencl kernel for b",) and "no opencl kernel for b" in str(b)


def test_without_the_trailing_place_the_error_names_operator_and_places(registry):
    unary(registry, "b", "arm")
    wish = valid_places(["opencl/fp16/ImageDefault", "opencl"])
    with pytest.raises(PartitionError) as error:
        pick_kernel(KernelRequest("b", label="B"), registry.of("b"), wish)
    assert all(word in str(error.value) for word in ("b (B)", "opencl/fp16/ImageDefault", "opencl/float/NCHW"))


def test_earlier_places_are_preferred(registry):
    for place in ("arm", "opencl"):
        unary(registry, "a", place)
    request = KernelRequest("a", (KernelArgument("X", FLOAT),), (KernelArgument("Out", FLOAT),))
    for places, target in ((["opencl", "arm"], "opencl"), (["arm", "opencl"], "arm")):
        for formula in FORMULAS:
            chosen = pick_kernel(request, registry.of("a"), valid_places(places), formula, first_wish=False)
            assert chosen.place.target == target


@pytest.mark.parametrize(("places", "words"), [([], "empty"), (["arm", "kARM"], "twice")])
def test_a_wish_that_is_none_is_refused(places, words):
    with pytest.raises(PartitionError, match=words):
        valid_places(places)
