"""Estimators: how many seconds a candidate's module takes on its target. Source: Collage's ``CostEstimator`` classes.

An estimator gets a module whose ``main`` is the candidate, and its target. ``math.inf`` says that the target cannot
run it. What builds and times stands above this package, and is found by the global function :data:`ESTIMATE_SECONDS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from byoc.errors import InternalError, UserError
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.ir.target import Target
from byoc.ir.types import TensorType
from byoc.relay.expr import Call, Function
from byoc.relay.traverse import post_order

ESTIMATE_SECONDS = "tvm.relay.collage.estimate_seconds"
ESTIMATE_SECONDS_CUSTOM = "tvm.relay.collage.estimate_seconds_custom"
FUSION_BENEFIT = 0.9  # each operator of a function costs so much of the one before


class CostEstimator:
    """Builds and times a candidate on this machine."""

    def estimate(self, mod: IRModule, target: Target) -> float:
        """Seconds that ``main`` of *mod* takes on *target*; infinity where it cannot be built.

        Raises UserError where nothing that measures is registered.
        """
        return _called(ESTIMATE_SECONDS, mod, target)


class CustomCostEstimator(CostEstimator):
    """Asks the global function *py_fn_estimator*, which gets the module and the target."""

    def __init__(self, py_fn_estimator: str = ESTIMATE_SECONDS_CUSTOM):
        self.py_fn_estimator = py_fn_estimator

    def estimate(self, mod: IRModule, target: Target) -> float:
        """What the function says. Raises UserError where there is none of that name."""
        return _called(self.py_fn_estimator, mod, target)


class MockCostEstimator(CostEstimator):
    """A cost for each operator by the kind of its target, a tenth less for each further operator of one function.

    *max_estimates* (0: any number) is how many distinct candidates a test allows.
    """

    def __init__(self, target_costs: Mapping[str, float], max_estimates: int = 0):
        self.target_costs = dict(target_costs)
        self.max_estimates = max_estimates
        self.num_estimates = 0

    def estimate(self, mod: IRModule, target: Target) -> float:
        """The cost of all operators in *mod*.

        Raises InternalError after too many estimates, or for a main that takes tuples; UserError for a target that
        has no cost.
        """
        if self.max_estimates and self.num_estimates >= self.max_estimates:
            raise InternalError(
                f"at most {self.max_estimates} non-trivial distinct candidates should have been generated"
            )
        self.num_estimates += 1
        kind = target.kind.name
        if kind not in self.target_costs:
            raise UserError(f"there is no cost for target {kind!r}; there are costs for {', '.join(self.target_costs)}")
        return sum(self._function_cost(v.name_hint, f, self.target_costs[kind]) for v, f in mod.functions.items())

    def _function_cost(self, name: str, function: object, op_cost: float) -> float:
        if not isinstance(function, Function):
            return 0.0
        if name == "main" and not all(isinstance(param.checked_type, TensorType) for param in function.params):
            raise InternalError("only tensors may be parameters of the main that is estimated")
        calls = sum(1 for n in post_order(function.body) if isinstance(n, Call) and isinstance(n.op, Op))
        return sum(op_cost * FUSION_BENEFIT**number for number in range(calls))


def _called(name: str, mod: IRModule, target: Target) -> float:
    function: Callable[[IRModule, Target], float] | None = GLOBAL_FUNCTIONS.get(name)
    if function is None:
        raise UserError(
            f"there is no global function {name!r} to estimate costs: register one of (mod, target), or import "
            "byoc.annex.collage.estimate_seconds, which measures on this machine"
        )
    seconds = float(function(mod, target))
    return math.inf if math.isnan(seconds) else seconds
