"""Whether an output is right: quickly against what is wanted, and where it is not equal, against everything known.

An output that rounds as expected is right. One that does not is *ours* to mend unless one of these holds, which each
is asked for only then: ONNX Runtime with its optimisations on gives it; ONNX's reference gives it; it is no further
from the reference in float64 than ONNX Runtime is; or rounding errors of the types' and the precision's size, put into
the values of the model, move it as far (``disturbance.py``): a number by their noise, an integer or a boolean only at
the elements where a value within its noise of the true one rounds, compares or sorts otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from onnx import ModelProto

from byoc.testing.core.difference import QUICK, difference
from fuzz.case import Feeds
from fuzz.configurations import Narrowing
from fuzz.disturbance import Disturbance
from fuzz.generators.draft import MOST_ELEMENTS
from fuzz.judge.oracle import ORT_ERRORS, NotApplicable, is_float, read_names, run_reference, session
from fuzz.promote import in_float64, values_in_float64

NOISE = {"float64": 2e-16, "float32": 1.2e-7, "float16": 1e-3, "bfloat16": 8e-3}  # a rounding
LARGEST_DRIFT = 0.05  # of the largest magnitude, in types so narrow that many roundings may lead anywhere
AGREED, BY_REFERENCE, ILL_CONDITIONED, WRONG = "agreed", "agreed with the reference", "ill conditioned", "wrong"


@dataclass(frozen=True)
class Judgement:
    """What was found of one output: AGREED, BY_REFERENCE, ILL_CONDITIONED or WRONG, and a sentence where it differs."""

    verdict: str
    text: str = ""


def _is_trusted(exact: np.ndarray, want: np.ndarray, size: float) -> bool:
    """Whether ONNX's reference in float64 computes what ONNX Runtime does: it knows not every attribute (GRU's clip).

    It does if roundings of *size*, one after another, as many as a model has elements, lead from one to the other.
    """
    if exact.shape != want.shape or not np.array_equal(np.isfinite(exact), np.isfinite(want)):
        return False
    finite = np.isfinite(want)
    far, span = np.abs(exact - want)[finite].max(initial=0), np.abs(want[finite]).max(initial=0)
    return bool(far <= min(MOST_ELEMENTS * size, LARGEST_DRIFT) * span)


def only_output(model: ModelProto, index: int) -> ModelProto:
    """*model* with one of its outputs alone, and the nodes that this one reads; inputs and weights stay."""
    alone = ModelProto()
    alone.CopyFrom(model)
    output = model.graph.output[index]
    needed, nodes = {output.name}, []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(read_names(node))
    for part, values in ((alone.graph.node, reversed(nodes)), (alone.graph.output, [output])):
        del part[:]
        part.extend(values)
    return alone


@dataclass
class Judge:
    """Answers for the outputs of one model on one set of inputs; what is expensive is computed once, when needed.

    *narrowing* is what the configuration allows itself in what products read, or None where it computes in the model's
    own types.
    """

    model: ModelProto
    feeds: Feeds
    wanted: list[np.ndarray]
    disturbances: dict[tuple[float, Narrowing | None], Disturbance] = field(default_factory=dict)
    exact: dict[int, np.ndarray | None] = field(default_factory=dict)
    by_reference: dict[int, np.ndarray | None] = field(default_factory=dict)

    def judge(self, index: int, got: np.ndarray, narrowing: Narrowing | None = None) -> Judgement:
        """Whether *got* is right for output *index*."""
        want = self.wanted[index]
        scale = QUICK.get(str(want.dtype), 0.0)
        found = difference(got, want, scale)
        if found is None:
            return Judgement(AGREED)
        if got.shape == want.shape and got.dtype == want.dtype:
            for name, other in (("optimised", self.optimised), ("reference", self.reference)):
                value = other(index)
                if value is not None and difference(got, value, scale) is None:
                    return Judgement(BY_REFERENCE, f"{name}: {found}")
            if self._within_noise(index, got, narrowing):
                return Judgement(ILL_CONDITIONED, found)
        return Judgement(WRONG, found)

    def _within_noise(self, index: int, got: np.ndarray, narrowing: Narrowing | None) -> bool:
        """Whether rounding may have made *got* of the wanted output."""
        name, size = self.model.graph.output[index].name, NOISE.get(str(got.dtype), 1.2e-7)
        how = self._disturbance(max(size, 1.2e-7) if self.has_float32 else size, narrowing)
        if not how.jumping:
            return False
        return self._may_be(name, index, got, how) or (
            how.follows_a_jump(name) and self._may_be(name, index, got, how.with_rare_jumps())
        )

    def _may_be(self, name: str, index: int, got: np.ndarray, how: Disturbance) -> bool:
        hull = how.hull(name)
        if hull is None:
            return False
        low, high = hull
        return self._near(index, got, how) if is_float(got.dtype) else bool(((low <= got) & (got <= high)).all())

    def _near(self, index: int, got: np.ndarray, how: Disturbance) -> bool:
        """Whether each float of *got* is within the noise of what it may be; what overflows in one may be anything."""
        name, want = self.model.graph.output[index].name, self.wanted[index].astype("float64")
        allowed, truth = how.noise(name), want
        exact = None if how.follows_a_jump(name) else self.in_float64(index)
        with np.errstate(invalid="ignore", over="ignore"):
            if exact is not None and _is_trusted(exact.astype("float64"), want, how.size):
                truth = exact.astype("float64")
                far = np.where(np.isfinite(want - truth), np.abs(want - truth), 0)
                allowed = max(allowed, 2 * float(far.max(initial=0)))
            runs = [truth, want, *(run[name].astype("float64") for run in how.jumping)]
            unsure = np.zeros(want.shape, bool)
            for other in runs[2:]:
                same = (other == want) | (np.isnan(other) & np.isnan(want))
                unsure |= ~same & ~(np.isfinite(other) & np.isfinite(want))
            finite = [np.where(np.isfinite(v), v, truth) for v in runs]
            a = got.astype("float64")
            same = (a == truth) | (np.isnan(a) & np.isnan(truth)) | (a == want) | (np.isnan(a) & np.isnan(want))
            near = (np.min(finite, axis=0) - allowed <= a) & (a <= np.max(finite, axis=0) + allowed)
        return bool((same | near & np.isfinite(a) | unsure).all())

    def _disturbance(self, size: float, narrowing: Narrowing | None) -> Disturbance:
        if (size, narrowing) not in self.disturbances:
            self.disturbances[size, narrowing] = Disturbance(self.model, self.feeds, size, narrowing)
        return self.disturbances[size, narrowing]

    @property
    def has_float32(self) -> bool:
        """True when a value of the model is float32: an output in float64 may have come through it."""
        types = [i.type.tensor_type.elem_type for i in self.model.graph.input]
        types += [w.data_type for w in self.model.graph.initializer]
        return 1 in types or any(node.op_type in ("Cast", "Constant") for node in self.model.graph.node)

    def optimised(self, index: int) -> np.ndarray | None:
        """Output *index* by ONNX Runtime with everything on, or None where it cannot."""
        return None if self._optimised is None else self._optimised[index]

    @cached_property
    def _optimised(self) -> list[np.ndarray] | None:
        try:
            return session(self.model, optimised=True).run(None, self.feeds)
        except (*ORT_ERRORS, RuntimeError):
            return None

    def reference(self, index: int) -> np.ndarray | None:
        """Output *index* by ONNX's reference in the model's own types, or None where it cannot.

        What the output does not read is left out, as in :meth:`in_float64`.
        """
        if index not in self.by_reference:
            try:
                self.by_reference[index] = run_reference(only_output(self.model, index), self.feeds)[0]
            except NotApplicable:
                self.by_reference[index] = None
        return self.by_reference[index]

    def in_float64(self, index: int) -> np.ndarray | None:
        """Output *index* with every floating-point type made float64: by ONNX's reference, else node by node, or None.

        The nodes that the output does not read are left out: what cannot be computed there is of no weight here.
        """
        if index not in self.exact:
            alone = only_output(self.model, index)
            self.exact[index] = self._by_reference(alone)
            if self.exact[index] is None:
                self.exact[index] = self._by_nodes(alone)
        return self.exact[index]

    def _by_reference(self, alone: ModelProto) -> np.ndarray | None:
        try:
            return run_reference(*in_float64(alone, self.feeds))[0]
        except NotApplicable:
            return None

    def _by_nodes(self, alone: ModelProto) -> np.ndarray | None:
        try:
            return values_in_float64(alone, self.feeds)[alone.graph.output[0].name]
        except NotApplicable:
            return None
