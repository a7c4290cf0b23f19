"""Linear and integer programs by HiGHS, through scipy, which is optional: extra ``solve``."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from byoc.partition.solve.program import IntegerProgram, Row

INFEASIBLE = 2


def is_available() -> bool:
    """Whether scipy is there."""
    return importlib.util.find_spec("scipy") is not None


@dataclass(frozen=True)
class SolverOutcome:
    """What a solver gave: values of the variables (None: none found), a lower bound, and whether nothing satisfies it.

    *reduced* are the reduced costs of a linear program, at the lower and the upper bounds: f64[variables] each.
    """

    values: np.ndarray | None
    bound: float
    infeasible: bool
    reduced: tuple[np.ndarray, np.ndarray] | None = None
    complete: bool = True


class SparseRows:
    """The rows of a program, kept as a sparse matrix that grows."""

    def __init__(self, rows: Sequence[Row]):
        self._data: list[float] = []
        self._columns: list[int] = []
        self._ends = [0]
        self.least: list[float] = []
        self.add(rows)

    def add(self, rows: Sequence[Row]) -> None:
        """Append *rows*."""
        for coefficients, least in rows:
            self._columns += coefficients.keys()
            self._data += coefficients.values()
            self._ends.append(len(self._columns))
            self.least.append(least)

    def matrix(self, columns: int) -> Any:
        """As scipy's csr_array."""
        sparse = importlib.import_module("scipy.sparse")
        return sparse.csr_array((self._data, self._columns, self._ends), shape=(len(self.least), columns))


class Solver:
    """A program given to HiGHS again and again with more rows; costs are multiplied by *scale*.

    HiGHS accepts an absolute gap of 1e-6: *scale* should make costs large beside it.
    """

    def __init__(self, program: IntegerProgram, scale: float):
        self.program, self.scale = program, scale
        self.costs = np.array(program.costs) * scale
        self.lower, self.upper = np.zeros(len(self.costs)), np.array(program.upper)
        self._equal, self._at_least = SparseRows(program.equal), SparseRows(program.at_least)
        self._optimize = importlib.import_module("scipy.optimize")

    def add(self, rows: Sequence[Row]) -> None:
        """More rows that must be at least a number."""
        self._at_least.add(rows)

    def relaxation(self, seconds: float) -> SolverOutcome:
        """The linear program."""
        count = len(self.costs)
        result = self._optimize.linprog(
            self.costs,
            A_ub=-self._at_least.matrix(count),
            b_ub=-np.array(self._at_least.least),
            A_eq=self._equal.matrix(count),
            b_eq=np.array(self._equal.least),
            bounds=np.stack([self.lower, self.upper], axis=1),
            method="highs",
            options={"time_limit": max(seconds, 0.01)},
        )
        if result.status != 0:
            return SolverOutcome(None, 0.0, result.status == INFEASIBLE, complete=result.status == INFEASIBLE)
        reduced = np.asarray(result.lower.marginals), np.asarray(result.upper.marginals)
        return SolverOutcome(np.asarray(result.x), float(result.fun) / self.scale, False, reduced)

    def integer(self, seconds: float) -> SolverOutcome:
        """The integer program."""
        count = len(self.costs)
        constraints = []
        for rows, top in ((self._equal, True), (self._at_least, False)):
            least = np.array(rows.least)
            if len(least):
                most = least if top else np.full(len(least), np.inf)
                constraints.append(self._optimize.LinearConstraint(rows.matrix(count), least, most))
        result = self._optimize.milp(
            self.costs,
            integrality=np.array(self.program.integral, dtype=int),
            bounds=self._optimize.Bounds(self.lower, self.upper),
            constraints=constraints,
            options={"time_limit": max(seconds, 0.01), "mip_rel_gap": 0.0},
        )
        bound = result.mip_dual_bound
        values = None if result.x is None else np.asarray(result.x)
        if result.status == INFEASIBLE:
            return SolverOutcome(None, np.inf, True)
        known = bound is not None and np.isfinite(bound)
        return SolverOutcome(values, float(bound) / self.scale if known else 0.0, False, complete=result.status == 0)
