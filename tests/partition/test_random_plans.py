"""Random graphs under random verdicts, patterns, costs and limits: what policy ``cost`` cuts is lawful and right."""

import os
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from test_by_cost import Costs
from test_random_graphs import paths_leave_and_return, random_function

from byoc import relay
from byoc.contract import BACKENDS, Backend, Limits, PatternEntry, accept, callee_name, refuse, register_backend
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.partition import make_plan
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.interpreter import evaluate
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES

OPERATORS = ("abs", "negative", "tanh", "sigmoid", "add", "subtract", "maximum")
SLOW = 10_000


class Random(Backend):
    """Takes some operators, and some patterns of two or three."""

    def __init__(self, name, rng):
        self.name = name
        self.takes = frozenset(o for o in OPERATORS if rng.random() < 0.6)
        self.rows = []
        for k in range(rng.randrange(4)):
            inner = is_op(rng.choice(OPERATORS[4:]))(wildcard(), wildcard())
            pattern = is_op(rng.choice(OPERATORS[:4]))(inner)
            if rng.random() < 0.3:
                pattern = is_op(rng.choice(OPERATORS[:4]))(pattern)
            self.rows.append(PatternEntry(f"{name}.row{k}", pattern))
        most = rng.choice((None, None, 2, 3, 5))
        self.limits = Limits(most, rng.choice((None, None, 100)), rng.choice((None, None, 2)), rng.choice((1, 1, 2)))

    def patterns(self):
        return self.rows

    def supports(self, call):
        name = callee_name(call)
        if name in self.takes or name.startswith(f"{self.name}."):
            return accept(call)
        return refuse(call, "operator", "not this one", name)

    def compile(self, function, options):
        raise NotImplementedError("it is planned for alone")


def random_plan(seed, size, registered):
    """A module, a plan by cost for it, and the plan by order."""
    rng = random.Random(seed)
    names = []
    for name in ("left", "right")[: rng.randrange(1, 3)]:
        backend = Random(name, rng)
        registered(backend)
        names.append(name)
    prices = {t: {o: rng.choice((0.5, 1.0, 2.0, 4.0)) for o in OPERATORS} for t in ("host", *names)}
    costs = Costs(prices, rng.choice((0.0, 0.25, 1.0)), rng.choice((0.0, 0.5)))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(random_function(rng, size)))
    return mod, make_plan(mod, names, policy="cost", costs=costs)


@pytest.fixture
def registered():
    names = []

    def register(backend):
        register_backend(backend)
        names.append(backend.name)

    def forget():
        for name in names:
            for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
                registry.unregister(name)
            GLOBAL_FUNCTIONS.unregister(f"relay.ext.{name}")
        names.clear()

    register.forget = forget
    yield register
    forget()


def check(seed, size, registered):
    mod, plan = random_plan(seed, size, registered)
    annotated = plan.annotate(mod)
    assert not paths_leave_and_return(annotated["main"])
    assert all(d.codes for d in plan.host), "nothing stays behind without a code"
    assert len(plan.regions) == len({d.region for d in plan.decisions if d.region is not None})
    cut = plan.apply(mod)
    inputs = [np.random.default_rng(seed + k).standard_normal((2, 3)).astype("float32") for k in range(2)]
    for a, b in zip(evaluate(mod, inputs), evaluate(cut, inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    registered.forget()


@pytest.mark.parametrize("seed", range(40))
def test_a_random_plan_is_convex_and_computes_the_same_numbers(seed, registered):
    check(seed, random.Random(seed).randrange(3, 25), registered)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(50))
def test_ten_thousand_random_plans(part, registered):
    for seed in range(1000 + part * (SLOW // 50), 1000 + (part + 1) * (SLOW // 50)):
        check(seed, random.Random(seed).randrange(3, 15), registered)


def test_the_same_plan_comes_out_under_two_hash_seeds():
    program = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); import test_random_plans as t\n"
        "from byoc.contract import register_backend\n"
        "print(json.dumps(t.random_plan(5, 30, register_backend)[1].to_json()))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program, str(pathlib.Path(__file__).parent)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert '"total"' in outputs[0] and outputs[0] == outputs[1]
