"""Three code generators behind one contract: each compiles and runs the demo's region, as ``relay.ext.<name>``."""

import pathlib

import numpy as np
import pytest

import byoc
from byoc.contract import get_backend
from byoc.driver.compiler.compile import assemble
from byoc.driver.pipeline import optimize
from byoc.ir import get_global_func
from byoc.partition.plan.planner import make_plan
from byoc.relay.interpreter import evaluate
from byoc.runtime import NDArray

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture(scope="module")
def region():
    mod = optimize(byoc.import_onnx(DIGITS / "digits.onnx"))
    cut = make_plan(mod, ["opencl"], exclude=["divide", "nn.softmax"]).apply(mod)
    (function,) = [f for f in cut.functions.values() if "Compiler" in f.attrs]
    return function


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.parametrize("name", ["json", "c", "opencl"])
def test_a_generator_runs_the_region_of_the_demo(name, region):
    backend = get_backend(name)
    assert backend.name == name
    symbol = region.attrs["global_symbol"]
    images = np.load(DIGITS / "unseen.npz")["images"].astype("float32")[:5] / 16
    expected = evaluate(region, [images])
    for module in (backend.compile(region, {}), get_global_func(f"relay.ext.{name}")(region)):
        assert module.type_key == name
        assert module.get_source()
        out = NDArray(np.full((5, 10), np.nan, "float32"))
        assemble([module])[symbol](NDArray(images), out)
        np.testing.assert_allclose(out.numpy(), expected, atol=1e-5)
        again = type(module).load(module.save())
        again.constant_arrays = module.constant_arrays
        out = NDArray(np.full((5, 10), np.nan, "float32"))
        assemble([again])[symbol](NDArray(images), out)
        np.testing.assert_allclose(out.numpy(), expected, atol=1e-5)
