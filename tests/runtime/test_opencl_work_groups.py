"""The work-groups of launches: any size that a plan says, the driver's own, and devices that take fewer work-items."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.opencl.backend import compile_functions
from byoc.errors import ArtifactError
from byoc.ir.types import TensorType
from byoc.relay.expr import Function, Var
from byoc.runtime.opencl import ready_kernels
from byoc.runtime.opencl.launches import FunctionPlan, Variant
from byoc.runtime.opencl.module import OpenCLModule

COUNT = 315  # elements: 3 * 3 * 5 * 7


@pytest.mark.parametrize(
    ("local", "most", "shape"),
    [
        (64, 1024, (320, 64)),
        (64, 24, (320, 16)),  # the largest divisor, which divides what the kernel was written for
        (63, 64, (315, 63)),
        (63, 62, (315, 21)),
        (105, 64, (315, 35)),
        (7, 4, (315, 1)),
        (0, 4, (315, 0)),
    ],
)
def test_a_device_that_takes_fewer_work_items_gets_a_divisor(local, most, shape):
    assert Variant("item", "k", COUNT, local).shape({}, most) == shape


def module_with(local):
    """``max(x, 0)`` over 315 elements in work-groups of *local*, for kernels without a test of the range."""
    x = Var("x", TensorType((COUNT,)))
    made = compile_functions({"f": fuse_body(Function([x], relay.nn.relu(x)))}, {"schedules": "gpu"})
    (plan,) = made.plans
    (launch,) = plan.launches
    changed = dataclasses.replace(launch, variants=(dataclasses.replace(launch.variants[0], local=local),))
    return OpenCLModule(made.get_source(), [dataclasses.replace(plan, launches=(changed,))])


def run(module):
    x = np.random.default_rng(0).standard_normal(COUNT).astype("float32")
    out = np.full(COUNT, np.nan, "float32")
    module["f"](x, out)
    np.testing.assert_array_equal(out, np.maximum(x, 0))


@pytest.mark.needs_opencl
@pytest.mark.parametrize("local", [0, 1, 63, 64, 105, 128])
def test_any_work_group_gives_the_same(local):
    run(module_with(local))


@pytest.mark.needs_opencl
@pytest.mark.parametrize("local", [0, 105])
def test_they_are_saved_and_loaded(local):
    module = module_with(local)
    members = {name: memoryview(data) for name, data in module.save().items()}
    loaded = OpenCLModule.load(members)
    assert loaded.plans == module.plans
    run(loaded)


@pytest.mark.needs_opencl
def test_a_kernel_whose_registers_allow_fewer_work_items_runs_in_smaller_groups(monkeypatch):
    asked = []

    def most(cl, kernel, device, limit):
        asked.append(kernel.function_name)
        return 32

    monkeypatch.setattr(ready_kernels, "most_items", most)
    run(module_with(128))
    assert len(asked) == 1


@pytest.mark.needs_opencl
@pytest.mark.parametrize(("change", "found"), [({"groups": True, "local": 63}, 63), ({"exact": True, "local": 0}, 0)])
def test_groups_that_share_results_are_a_power_of_two(change, found):
    (plan,) = module_with(64).plans
    data = json.loads(json.dumps(plan.to_json()))
    data["launches"][0]["variants"][0].update(change)
    with pytest.raises(ArtifactError, match=rf"have a power of two work-items, found {found}$"):
        FunctionPlan.from_json(data)
