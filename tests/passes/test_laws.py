"""Each pass rests on a law, one sentence; over generated modules its outputs are as near as the law promises."""

from __future__ import annotations

import numpy as np
import pytest
from generated import SHAPE, generated
from near import holds

from byoc.driver.narrow_products import NarrowProducts
from byoc.driver.pipeline import pipeline
from byoc.driver.precision import ProductPrecision
from byoc.ir.passes.pass_info import Law, Numbers
from byoc.ir.passes.transform import PassContext
from byoc.relay import transform
from byoc.relay.interpreter import evaluate
from byoc.relay.structure.structural import structural_equal

STEPS = [step for step in pipeline().steps() if step.run is not None]
SEEDS = 60
REGISTERED = "does what is registered on operators, and nothing is here"
IDLE = {
    "InferType": "what it writes down is no part of the graph",
    "Legalize": REGISTERED,
    "AlterOpLayout": REGISTERED,
    "qnn.Legalize": REGISTERED,
}


def outputs(mod, inputs):
    found = evaluate(mod, inputs)
    return found if isinstance(found, list) else [found]


class Walk:
    """Modules through passes: whose law did not hold, and which passes changed something."""

    def __init__(self):
        self.broken, self.changed = [], set()

    def take(self, seed, mod, step, inputs, before):
        """*mod* after *step*, with its outputs."""
        with PassContext(opt_level=4, config={"byoc.verify": True}):
            made = step.run(mod)
        after = outputs(made, inputs)
        if not all(holds(step.run.law, a, b) for a, b in zip(before, after, strict=True)):
            self.broken.append((seed, step.label, step.run.law.says))
        if not structural_equal(mod, made):
            self.changed.add(step.run.info.name)
        return made, after


@pytest.fixture(scope="module")
def walked():
    """Each module of a seed through the whole pipeline, and through each pass alone where it needs no other before."""
    walk = Walk()
    for seed in range(SEEDS):
        given = generated(seed)
        inputs = [np.random.default_rng(seed).standard_normal(SHAPE).astype("float32") for _ in range(2)]
        numbers = outputs(given, inputs)
        mod, before = given, numbers
        for step in STEPS:
            if "fused" not in step.run.info.needs:
                walk.take(seed, given, step, inputs, numbers)
            mod, before = walk.take(seed, mod, step, inputs, before)
    return walk


def test_every_pass_of_the_pipeline_states_its_law():
    assert [step.label for step in STEPS if not isinstance(step.run.law, Law)] == []


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_passes_that_lower_the_precision_state_their_law(precision):
    passes = NarrowProducts(ProductPrecision.of(precision, ())).passes()
    assert passes and all(isinstance(p.law, Law) for p in passes)


def test_passes_of_relay_state_their_law():
    made = [getattr(transform, name) for name in transform.__all__]
    ours = [f for f in made if callable(f) and getattr(f, "__module__", "").startswith("byoc.relay.transform.")]
    without = []
    for factory in ours:
        try:
            step = factory()
        except TypeError:  # a function that makes no pass, or asks for more
            continue
        without += [p.info.name for p in getattr(step, "passes", [step]) if hasattr(p, "info") and p.law is None]
    assert without == []


def test_outputs_after_each_pass_are_as_near_as_its_law_promises(walked):
    assert walked.broken == []


def test_each_pass_changes_some_of_the_generated_modules(walked):
    names = {step.run.info.name for step in STEPS}
    assert names - walked.changed == set(IDLE)


def test_a_pass_that_breaks_its_law_is_found():
    before = np.ones(3, "float32")
    assert holds(Law("x = x"), before, before) and not holds(Law("x = x"), before, before * np.float32(1.0000001))
    assert holds(Law("x = x", Numbers.ROUNDING), before, before * np.float32(1.0000001))
    assert not holds(Law("x = x", Numbers.ROUNDING), before, before * np.float32(1.001))
    assert not holds(Law("x = x", Numbers.NEAR), before, before * np.float32(1.1))


def test_a_law_says_something():
    with pytest.raises(ValueError, match="which equality"):
        Law(" ")
