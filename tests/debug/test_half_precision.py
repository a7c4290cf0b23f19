"""A mistake that is one of float16 alone is found by bisect and compare where they are asked for that precision."""

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.contract import register_backend
from byoc.kernels import KernelBackend, kernel

pytestmark = pytest.mark.needs_cc


@pytest.fixture(params=[1])
def model(of_this_test, request):
    """Two dense layers on a backend whose product of float16 forgets the last number of each row of the second."""

    @register_backend
    class Forgets(KernelBackend):
        """dense layers and relu"""

        name = "forgets"

    @kernel("nn.dense", "forgets/float/any", alias="wide")
    def dense(x, weight):
        return x @ weight.T

    @kernel("nn.dense", "forgets/fp16/any", alias="half")
    def half(x, weight):
        count = x.shape[1] - request.param * (weight.shape[0] == 5)
        return x[:, :count] @ weight[:, :count].T

    kernel("nn.relu", "forgets/float/any")(lambda x: np.maximum(x, np.float32(0)))
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(3, 16))
    y = x
    for units, depth in ((8, 16), (5, 8)):
        y = relay.nn.relu(relay.nn.dense(y, relay.const(rng.uniform(0, 0.3, (units, depth)).astype("float32"))))
    return byoc.IRModule.from_expr(relay.Function([x], relay.exp(relay.tanh(y))))


def test_bisect_finds_the_product_that_is_wrong_in_float16_alone(model, tmp_path):
    assert byoc.bisect(model, ["forgets", "c"]).ok
    case = tmp_path / "case.npz"
    found = byoc.bisect(model, ["forgets", "c"], precision="fp16", case=case)
    assert not found.ok and found.operator.name == "nn.dense" and "float16[3, 8]" in str(found)
    assert main(["bisect", "--replay", str(case), "-t", "forgets"]) == 2
    assert byoc.bisect(model, ["forgets", "c"], precision="fp16", tolerance={"float16": 2, "float32": 2}).ok


def test_bisect_leaves_in_float32_what_is_to_stay(model):
    assert byoc.bisect(model, ["forgets", "c"], precision="fp16", keep_f32=["nn.dense"]).ok


def test_compare_shows_where_float16_parts(model):
    assert byoc.compare(model, targets=["c", "forgets"]).ok
    found = byoc.compare(model, targets=["c", "forgets"], precision="fp16")
    assert not found.ok
    assert found.diverging is not None and found.diverging.shape == (3, 5)


@pytest.mark.parametrize("model", [0], indirect=True)
def test_halves_that_are_right_are_not_reported(model):
    assert byoc.bisect(model, ["forgets", "c"], precision="fp16").ok
    assert byoc.compare(model, targets=["c", "forgets"], precision="fp16").ok
