"""An operator that is registered here, by one call and one numpy kernel, is known to everything that asks."""

import numpy as np
import pytest

import byoc
from byoc import relay, te
from byoc.contract import get_backend
from byoc.driver.pipeline import optimize
from byoc.ir.op import OPS, OpPattern, Sample, register_op
from byoc.ir.traits import Conversion, Scaling, pointwise
from byoc.partition.costs.work import WorkKind, work_of
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.interpreter import evaluate
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.type_relations import identity
from byoc.relay.op.pointwise.elementwise import each_element
from byoc.relay.transform.fuse.carry_views import carry_views
from byoc.relay.transform.layout.rules import layout_rule
from byoc.relay.transform.mixed_precision import conversion_of
from byoc.relay.transform.scales.fold_constant_scales import fold_scales
from byoc.relay.traverse import post_order
from byoc.runtime.kernels import KERNELS, kernel

NAME = "test.squeezed"  # x / (1 + |x|), times 2


@pytest.fixture(scope="module", autouse=True)
def operator():
    """The operator, which is forgotten after the tests of this file."""
    op = register_op(
        NAME,
        inputs=("data",),
        rel=identity,
        doc="Twice each element over one more than its absolute value.",
        pattern=OpPattern.ELEMWISE,
        traits=pointwise(costly=1.25, precision=Conversion.FOLLOW),
        compute=each_element(lambda x: (x + x) / (te.abs(x) + 1.0), "squeezed"),
        samples=(Sample([(2, 3)]),),
    )
    kernel(NAME)(meaning)
    yield op
    del KERNELS[NAME]
    OPS._values.pop(NAME)
    OPS._places.pop(NAME)


def meaning(data: np.ndarray) -> np.ndarray:
    return ((data + data) / (np.abs(data) + 1)).astype(data.dtype)


def squeezed(x: relay.Expr) -> relay.Call:
    return make_call(NAME, [x])


def names(expr: relay.Expr) -> list[str]:
    return [n.op.name for n in post_order(expr) if isinstance(n, relay.Call) and hasattr(n.op, "name")]


RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((8, 4, 3, 3)).astype("float32")
X = RNG.standard_normal((1, 4, 10, 10)).astype("float32")


@pytest.fixture
def model() -> relay.IRModule:
    """A convolution, the operator, and a pool behind it."""
    x = relay.var("x", shape=X.shape)
    conv = relay.nn.conv2d(x, relay.const(WEIGHT), padding=(1, 1))
    return relay.IRModule.from_expr(relay.Function([x], relay.nn.max_pool2d(squeezed(conv), (2, 2), (2, 2))))


def expected() -> np.ndarray:
    x = relay.var("x", shape=X.shape)
    conv = relay.nn.conv2d(x, relay.const(WEIGHT), padding=(1, 1))
    values = meaning(evaluate(relay.Function([x], conv), [X]))
    return values.reshape(1, 8, 5, 2, 5, 2).max((3, 5))


@pytest.mark.needs_cc
def test_the_host_fuses_it_with_the_convolution_before_it(model: relay.IRModule) -> None:
    library = byoc.compile(model)
    np.testing.assert_allclose(library.run({"x": X})[0], expected(), rtol=1e-5, atol=1e-5)
    (host,) = library.lib.imported_modules
    assert "conv2d_test_squeezed" in host.get_source()


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.parametrize("target", ["c", "opencl", "json"])
def test_every_generator_is_offered_it(target: str, model: relay.IRModule) -> None:
    plan = byoc.plan(model, [target, "host"])
    assert {d.operator: d.target for d in plan.decisions}[NAME] == target
    library = byoc.compile(model, plan=plan)
    np.testing.assert_allclose(library.run({"x": X})[0], expected(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["c", "opencl", "json"])
def test_every_generator_supports_it(target: str) -> None:
    call = squeezed(relay.var("x", shape=(2, 3)))
    infer_expr(call)
    assert get_backend(target).supports(call)


def test_it_keeps_layouts(model: relay.IRModule) -> None:
    assert layout_rule(OPS[NAME]) is not None
    found = optimize(relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(model))
    order = names(found["main"].body)
    assert order.index(NAME) == order.index("nn.conv2d") + 1  # no transform of layout between them


def test_views_are_carried_past_it() -> None:
    x, w = relay.var("x", shape=(6, 8)), relay.const(WEIGHT.reshape(-1)[:64].reshape(8, 8))
    body = squeezed(relay.reshape(relay.nn.dense(x, w), (2, 3, 8)))
    found = carry_views(relay.Function([x], body))
    assert names(found.body) == ["nn.dense", NAME, "reshape"]


def test_it_is_priced_by_its_own_declaration() -> None:
    call = squeezed(relay.var("x", shape=(6, 8)))
    infer_expr(call)
    work = work_of(call)
    assert (work.kind, work.elements, work.costly) == (WorkKind.POINTWISE, 48, 1.25)


def test_mixed_precision_knows_it() -> None:
    rule = conversion_of(OPS[NAME])
    assert rule is not None and rule(squeezed(relay.var("x", shape=(2,))), "float16")[0] == Conversion.FOLLOW


def test_a_scale_stops_before_it_unless_it_says_otherwise(monkeypatch: pytest.MonkeyPatch, operator) -> None:
    x = relay.var("x", shape=X.shape)
    conv = relay.nn.conv2d(x, relay.const(WEIGHT), padding=(1, 1))
    function = relay.Function([x], relay.multiply(squeezed(conv), relay.const(np.float32(2.0))))
    assert "multiply" in names(fold_scales(function).body)
    monkeypatch.setattr(operator, "declared_traits", pointwise(scaling=Scaling.PASSES))
    assert "multiply" not in names(fold_scales(function).body)
