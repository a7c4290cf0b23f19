"""The pipeline's passes that are made where they do something: what is said of them is what they are."""

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest

import byoc
from byoc.driver.pipeline import optimize, pipeline
from byoc.relay.frontend import from_onnx
from byoc.relay.text import astext
from byoc.relay.transform.base.deferred_pass import DeferredPass
from tools.health.imports import MODEL

DEFERRED = [step for step in pipeline().steps() if isinstance(step.run, DeferredPass)]


@pytest.mark.parametrize("step", DEFERRED, ids=lambda step: step.label)
def test_what_is_known_of_a_pass_before_it_is_made_holds_for_it(step):
    said, made = step.run.info, step.run.made().info
    for field in ("name", "opt_level", "required", "needs", "ends"):
        assert getattr(said, field) == getattr(made, field), field
    assert set(said.gives) == set(made.gives)


def test_there_are_such_passes():
    assert len(DEFERRED) > 10


WEIGHTS = ", ".join(["0.5"] * 144)
NETWORK = f"""
<ir_version: 8, opset_import: ["": 13]>
g (float[1, 4, 8, 8] x) => (float[1, 4, 8, 8] y)
<float[4, 4, 3, 3] w = {{{WEIGHTS}}}, float[1, 4, 1, 1] s = {{2.0, 3.0, 4.0, 5.0}}>
{{ c = Conv<pads = [1, 1, 1, 1]>(x, w)  y = Mul(c, s) }}
"""


def test_a_deferred_pass_does_what_it_did():
    model = onnx.parser.parse_model(NETWORK)
    assert "multiply" in astext(from_onnx(model)[0])
    assert "multiply" not in astext(optimize(from_onnx(model)[0]))
    x = np.ones((1, 4, 8, 8), "float32")
    (y,) = byoc.compile(model, targets=["c"]).run({"x": x})
    np.testing.assert_allclose(y[0, :, 4, 4], 18.0 * np.array([2, 3, 4, 5]), rtol=1e-6)


@pytest.mark.needs_cc
def test_a_model_that_has_nothing_for_them_does_not_import_them(tmp_path):
    code = (
        f"import sys, byoc\nbyoc.compile({str(MODEL)!r}, targets=['c'])\n"
        "late = [m for m in sys.modules if m.endswith(('combine_parallel', 'fast_math', 'fold_constant_scales'))]\n"
        "assert late == [], late"
    )
    environment = {**os.environ, "BYOC_CACHE_DIR": str(tmp_path), "BYOC_VERIFY": ""}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
