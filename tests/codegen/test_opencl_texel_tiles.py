"""What may be chosen for kernels over images: several texels a work-item, work-groups, levels; never another memory."""

from __future__ import annotations

import functools
import re

import pytest
from test_opencl_images import KERNELS, as_model, chains, check, compiled, convolution, opencl_part

from byoc import relay
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl import emit
from byoc.codegen.opencl.device.profile import ANY_CPU, ANY_GPU, DeviceProfile
from byoc.codegen.opencl.device.statements import DRIVERS
from byoc.codegen.opencl.emit import emit_programs
from byoc.codegen.opencl.images.texel_kernel import TexelTile, texel_kernel
from byoc.codegen.opencl.images.texel_space import TILES, texel_space, texel_tiles
from byoc.codegen.tune.level import LEVELS
from byoc.ir.types import TensorType
from byoc.relay.expr import Function, Var

H200 = DeviceProfile("gpu", 132, 48 << 10, 1024, image_width=1 << 15, image_height=1 << 15)


class Asking:
    """Remembers what is asked, and answers by the number *nth* of what is ranked."""

    def __init__(self, nth=0):
        self.spaces, self.nth = [], nth

    def choose(self, space):
        self.spaces.append(space)
        return space.ranked[self.nth % len(space.ranked)][1]


def two_convolutions(channels=16, side=12):
    x = Var("x", TensorType((1, channels, side, side)))
    w, v = (Var(n, TensorType((channels, channels, 3, 3))) for n in "wv")
    first = relay.nn.relu(relay.nn.conv2d(x, w, kernel_size=(3, 3), padding=(1, 1)))
    return Function([x, w, v], relay.nn.softmax(relay.nn.conv2d(first, v, kernel_size=(3, 3)), axis=-1))


def emitted(function, memory, nth=0, profile=ANY_GPU):
    """The spaces that are opened, and the plan that is made, with the *nth* choice of each."""
    asking = Asking(nth)
    _, (plan,) = emit_programs([lower_function(fuse_body(function), "f")], profile, False, memory, asking)
    return asking.spaces, plan


def texel_spaces(function, profile=ANY_GPU):
    return [s for s in emitted(function, "image", profile=profile)[0] if s.by_texels]


def tiles_of_windows():
    """Each tile with each window: one window of each tile in the default tests, the others in the slow ones."""
    for number, tile in enumerate([*TILES, TexelTile(3, 2, 3)]):
        for other, (kernel, stride) in enumerate(KERNELS):
            marks = () if other == number % len(KERNELS) else (pytest.mark.slow,)
            yield pytest.param(tile, kernel, stride, id=f"{tile.schedule}-{kernel}-{stride}", marks=marks)


@pytest.mark.needs_opencl
@pytest.mark.parametrize(("tile", "kernel", "stride"), list(tiles_of_windows()))
def test_every_tile_of_texels_computes_what_the_reference_does(tile, kernel, stride, monkeypatch):
    """Channels, rows and widths of which most tiles divide none; a tile may be larger than the whole tensor."""
    made = []

    def plan(stage, images, simplify, profile, choice):
        made.append(texel_kernel(stage, images, simplify, tile, 16))
        return made[-1]

    monkeypatch.setattr(emit, "texel_plan", plan)
    model = chains(kernel, stride, ((1, 5), (3, 4), (7, 9), (8, 8), (9, 1), (13, 3)))
    library = compiled(model)
    assert made and {p.schedule for p in made} == {tile.schedule}
    check(library, model)


@functools.cache
def matrices():
    """Rows of a matrix product and tensors of three dimensions, all of them images."""
    import numpy as np
    from onnx import helper, numpy_helper

    rng, nodes, constants = np.random.default_rng(0), [], []
    for name, source, shape in (("a", "x", (10, 7)), ("b", "h", (7, 9)), ("c", "g", (9, 6))):
        constants.append(numpy_helper.from_array(rng.standard_normal(shape).astype("float32") / 3, f"{name}_w"))
        nodes.append(helper.make_node("MatMul", [source, f"{name}_w"], [f"{name}_m"], name))
    nodes.insert(1, helper.make_node("Tanh", ["a_m"], ["h"]))
    nodes.insert(3, helper.make_node("Relu", ["b_m"], ["g"]))
    return as_model(nodes, {"x": (5, 10)}, ["c_m"], constants)


@pytest.mark.needs_opencl
@pytest.mark.parametrize("tile", TILES, ids=lambda t: t.schedule)
def test_tiles_of_matrices_compute_what_the_reference_does(tile, monkeypatch):
    monkeypatch.setattr(emit, "texel_plan", lambda s, i, f, p, c: texel_kernel(s, i, f, tile, 16))
    library = compiled(matrices())
    assert opencl_part(library).plans[0].images
    check(library, matrices())


def reads(plan_text):
    return len(re.findall(r"read_imagef\(", plan_text))


@pytest.mark.needs_opencl
@pytest.mark.parametrize(("tile", "read", "outputs"), [(TexelTile(), 5, 4), (TexelTile(1, 1, 4), 8, 16)], ids=str)
def test_positions_side_by_side_share_their_weights(tile, read, outputs, monkeypatch):
    """Four channels in and out: four texels of weights, and one of the image for each position."""
    import numpy as np

    monkeypatch.setattr(emit, "texel_plan", lambda s, i, f, p, c: texel_kernel(s, i, f, tile))
    rng, constants = np.random.default_rng(0), []
    nodes = [
        convolution("first", "x", "t", 16, 16, 3, 1, constants, rng),
        convolution("second", "t", "y", 16, 16, 3, 1, constants, rng),
    ]
    source = opencl_part(compiled(as_model(nodes, {"x": (1, 16, 16, 16)}, ["y"], constants))).get_source()
    kernels = [k for k in re.split(r"(?=__kernel )", source) if k.startswith("__kernel ") and "for (" in k]
    assert len(kernels) == 2 and all(reads(k) == read and k.count("= 0.0f;") == outputs for k in kernels)


@pytest.mark.parametrize("profile", [ANY_GPU, ANY_CPU, H200], ids=["gpu", "cpu", "h200"])
@pytest.mark.parametrize(("channels", "side"), [(16, 12), (5, 7), (48, 30)])
def test_levels_try_ever_more_of_what_a_device_can_launch(channels, side, profile):
    spaces = texel_spaces(two_convolutions(channels, side), profile)
    assert spaces
    for space in spaces:
        choices = [c for _, c in space.ranked]
        assert len(set(choices)) == len(choices) and choices[0].text() == "texel local=64"
        assert all(int(c["local"]) <= profile.max_group for c in choices)
        assert all(any(c["local"] == DRIVERS for c in choices if c.kind == k) for k in {c.kind for c in choices})
        found = {name: level.of(space) for name, level in LEVELS.items()}
        counts = [len(found[name]) for name in ("none", "fast", "normal", "wide", "heavy")]
        assert counts[0] == 1 and counts == sorted(counts) and counts[1] > 1
        assert all(tried[0] == space.expected for tried in found.values())
    products = [s for s in spaces if len(s.ranked) > len({c["local"] for _, c in s.ranked})]
    assert products and all("texels" in {c.kind for c in LEVELS["heavy"].of(s)} for s in products)
    if side == 30 and profile.units <= 16:  # enough work for all units also with tiles
        assert all("texels" in {c.kind for c in LEVELS["fast"].of(s)} for s in products)
    if side == 30:
        assert all(set(LEVELS["wide"].of(s)) < set(LEVELS["heavy"].of(s)) for s in products)


def test_a_tile_is_no_larger_than_the_tensor_and_every_choice_is_the_kernel_of_its_tile():
    for space in texel_spaces(two_convolutions(5, 7)):
        (stage,) = space.stages
        rows, columns = int(stage.shape[2]), int(stage.shape[3])
        assert all(t.down <= rows and t.across <= columns and 4 * (t.blocks - 1) < 5 for t in texel_tiles(stage))
        images, simplify = space.images, Simplifier()
        assert texel_space(stage, images, simplify, ANY_GPU) == list(space.ranked)
        for _, choice in space.ranked:
            plan = emit.texel_plan(stage, images, simplify, ANY_GPU, choice)
            assert plan.local == choice["local"]
            names = ("channels", "down", "across")
            wanted = "texel" if choice.kind == "texel" else "texels_" + "x".join(str(choice[n]) for n in names)
            assert plan.schedule == wanted


def test_what_is_asked_about_says_what_tensors_lie_in():
    images, buffers = ([s.kernel for s in emitted(two_convolutions(), m)[0]] for m in ("image", "buffer"))
    assert not any("image" in text for text in buffers)
    over = [text for text in images if "image" in text]
    assert len(over) >= 3 and not set(over) & set(buffers)
    assert any(
        re.search(r"^gpu by texels: float32\[1, 16, 12, 12\] image, .* -> float32\[1, 16, 10, 10\] image #", t)
        for t in over
    )


def test_no_choice_changes_what_is_an_image():
    function = two_convolutions()
    _, (untuned,) = emit_programs([lower_function(fuse_body(function), "f")], ANY_GPU, memory="image")
    kernels = set()
    for nth in (0, 1, 3, 7, 20, 40):
        _, plan = emitted(function, "image", nth)
        assert (plan.images, plan.buffers, plan.notes) == (untuned.images, untuned.buffers, untuned.notes)
        kernels.add(tuple(v.schedule for launch in plan.launches for v in launch.variants))
    assert len(kernels) > 2
