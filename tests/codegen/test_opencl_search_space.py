"""What may be chosen for OpenCL kernels: work-groups, tiles, levels; and that tiles load less for each output."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opencl_load_counter import loads_per_output

from byoc import relay
from byoc.codegen.kernel.collapse import collapse_axes
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.device.choosing import KernelSearchSpace, described, local_sizes
from byoc.codegen.opencl.device.profile import ANY_CPU, ANY_GPU, DeviceProfile
from byoc.codegen.opencl.device.statements import DRIVERS
from byoc.codegen.opencl.emit import emit_programs
from byoc.codegen.opencl.products import tile
from byoc.codegen.opencl.products.candidates import candidates
from byoc.codegen.opencl.products.kernel import product_kernel
from byoc.codegen.opencl.products.shape import block_product
from byoc.codegen.opencl.schedule import schedule_stage, stage_space
from byoc.codegen.tune.level import LEVELS
from byoc.ir.types import Any, TensorType
from byoc.relay.expr import Function, Var

H200 = DeviceProfile("gpu", 132, 48 << 10, 1024)


class Asking:
    """Remembers what is asked."""

    def __init__(self):
        self.spaces = []

    def choose(self, space):
        self.spaces.append(space)


def asked(function, profile=ANY_GPU) -> list[KernelSearchSpace]:
    asking = Asking()
    emit_programs([lower_function(fuse_body(function), "f")], profile, choices=asking)
    return asking.spaces


def convolution(channels=16, outputs=64, side=10, kernel=3) -> Function:
    x, w = Var("x", TensorType((1, channels, side, side))), Var("w", TensorType((outputs, channels, kernel, kernel)))
    return Function([x, w], relay.nn.relu(relay.nn.conv2d(x, w, kernel_size=(kernel, kernel))))


def elementwise(*shape) -> Function:
    x = Var("x", TensorType(shape))
    return Function([x], relay.nn.relu(x))


def softmax(*shape) -> Function:
    x = Var("x", TensorType(shape))
    return Function([x], relay.nn.softmax(x))


def only_stage(function):
    (group,) = lower_function(fuse_body(function), "f").groups
    return group.stages[-1]


@given(st.integers(1, 1 << 22), st.sampled_from([1, 64, 255, 256, 1000, 1024, 4096]))
def test_work_groups_are_powers_of_two_and_factors_within_the_limit_each_once(extent, most):
    found = local_sizes(extent, most)
    assert found[0] == DRIVERS and len(set(found)) == len(found)
    assert all(n <= most and n < 2 * extent for n in found)
    assert all(extent % n == 0 or n & (n - 1) == 0 for n in found[1:])
    assert {n for n in range(1, min(most, 300) + 1) if extent % n == 0} <= set(found)


@pytest.mark.parametrize("profile", [ANY_GPU, ANY_CPU, H200], ids=["gpu", "cpu", "h200"])
@pytest.mark.parametrize(
    "function",
    [convolution(), elementwise(3, 1000, 7), softmax(64, 1000), softmax(6, 9)],
    ids=["conv", "relu", "softmax", "short"],
)
def test_levels_try_ever_more_of_what_a_device_can_launch(function, profile):
    for space in asked(function, profile):
        choices = [c for _, c in space.ranked]
        assert len(set(choices)) == len(choices) and choices[0] == space.expected
        groups = [int(v) for c in choices for n, v in c.parameters if n in ("local", "lanes")]
        assert all(g <= profile.max_group for g in groups)
        counts = {name: len(level.of(space)) for name, level in LEVELS.items()}
        assert counts["none"] == 1 and LEVELS["none"].rounds == 0
        assert counts["none"] <= counts["fast"] <= counts["normal"] <= counts["wide"] <= counts["heavy"]
        assert all(level.of(space)[0] == space.expected for level in LEVELS.values())


def test_heavy_tries_more_than_wide_and_the_drivers_choice_is_among_the_first():
    for function in (convolution(24, 96, 30), elementwise(3, 1000, 7), softmax(600, 1000)):
        (space,) = asked(function, H200)
        wide, heavy = LEVELS["wide"].of(space), LEVELS["heavy"].of(space)
        assert set(wide) < set(heavy)
    (space,) = asked(elementwise(3, 1000, 7), H200)
    assert DRIVERS in [c["local"] for c in LEVELS["fast"].of(space)]


def test_what_is_asked_has_the_same_name_wherever_it_stands():
    first, second = (asked(convolution())[0].kernel for _ in range(2))
    x, w = Var("image", TensorType((1, 16, 10, 10))), Var("weights", TensorType((64, 16, 3, 3)))
    named = Function([x, w], relay.nn.relu(relay.nn.conv2d(x, w, kernel_size=(3, 3))))
    assert first == second == asked(named)[0].kernel != asked(convolution(side=11))[0].kernel
    stage = only_stage(convolution())
    assert described([stage], [stage], "gpu") != described([stage], [stage], "cpu")


def test_free_sizes_are_left_to_the_thresholds():
    assert asked(elementwise(Any("n"), 4)) == []


@pytest.mark.parametrize("profile", [ANY_GPU, ANY_CPU], ids=["gpu", "cpu"])
def test_every_choice_gives_a_kernel_of_its_kind_and_the_expected_one_what_no_choice_gives(profile):
    for function in (convolution(), elementwise(3, 100, 7)):
        stage = only_stage(function)
        ranked = stage_space(stage, Simplifier(), profile)
        for _, choice in ranked:
            (plan,) = schedule_stage(stage, Simplifier(), profile, choice)
            assert plan.schedule.startswith(choice.kind)
            assert choice.kind == "product" or plan.local == choice["local"]
        (model,) = schedule_stage(stage, Simplifier(), profile)
        (chosen,) = schedule_stage(stage, Simplifier(), profile, ranked[0][1])
        assert (model.schedule, model.local, model.items) == (chosen.schedule, chosen.local, chosen.items)


def test_a_tile_of_four_by_four_loads_a_quarter_of_what_one_work_item_an_output_loads():
    """A 3x3 convolution over C channels: 18 C loads for each output, 4.5 C with 4 x 4 outputs a work-item."""
    channels, outputs = 16, 64 * 8 * 8
    stage, simplify = only_stage(convolution(channels)), Simplifier()
    item = next(c for _, c in stage_space(stage, simplify, ANY_CPU) if c.kind == "item")
    (serial,) = schedule_stage(stage, simplify, ANY_CPU, item)
    assert loads_per_output(serial, outputs) == {"global": 18 * channels, "local": 0}
    p = block_product(collapse_axes(stage, simplify), simplify)
    four = [t for t, _ in tile.TILES if (t.item_rows, t.item_columns) == (4, 4)]
    assert any(9 * channels % one.points == 0 for one in four)
    for one in four:
        found = loads_per_output(product_kernel(p, one, simplify), outputs)
        ahead = one.points * one.ahead  # what the loop goes on by; the counter takes conditions as met
        terms = math.ceil(9 * channels / ahead) * ahead
        assert found["local"] == 0.5 * terms, "from local memory into registers"
        assert found["local"] == 4.5 * channels or 9 * channels % ahead
        fetched = (terms + ahead) * (1 / one.rows + 1 / one.columns)  # into local memory, some steps ahead
        assert found["global"] <= fetched < 4.5 * channels


def test_at_least_four_tiles_are_there_and_each_loads_less_than_no_tile():
    stage, simplify = only_stage(convolution()), Simplifier()
    p = block_product(collapse_axes(stage, simplify), simplify)
    assert len(tile.TILES) >= 4
    for one, _ in tile.TILES:
        found = loads_per_output(product_kernel(p, one, simplify), 64 * 64)
        blocks = math.ceil(64 / one.rows) * one.rows * math.ceil(64 / one.columns) * one.columns / 4096
        terms = math.ceil(144 / (one.points * one.ahead)) * one.points * one.ahead
        assert found["local"] <= terms * (1 / one.item_rows + 1 / one.item_columns) * blocks


def test_small_problems_take_small_tiles():
    def area(rows, columns, terms):
        x, w = Var("x", TensorType((rows, terms))), Var("w", TensorType((columns, terms)))
        stage, simplify = only_stage(Function([x, w], relay.nn.dense(x, w))), Simplifier()
        found = candidates(block_product(collapse_axes(stage, simplify), simplify), H200)[0]
        return found.tile.rows * found.tile.columns

    sizes = [(16, 16, 64), (64, 196, 256), (512, 784, 1024), (4096, 4096, 4096)]
    areas = [area(*s) for s in sizes]
    assert areas == sorted(areas) and areas[0] <= 1024 < areas[-1]
