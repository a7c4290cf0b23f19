"""Whether an output is right: quickly against what is wanted, and where it is not equal, against everything known.

An output that rounds as expected is right. One that does not is *ours* to mend unless one of these holds, which each
is asked for only then: ONNX Runtime with its optimisations on gives it; ONNX's reference gives it; it is no further
from the reference in float64 than ONNX Runtime is; or disturbing every operator's inputs by its type's rounding moves
the output as far (the model is ill conditioned). Integers and booleans are compared exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from onnx import ModelProto

from fuzz.case import Feeds
from fuzz.generators.draft import EXACT
from fuzz.oracle import ORT_ERRORS, Noise, NotApplicable, evaluate, is_float, read_names, run_reference, session
from fuzz.promote import in_float64

# of the largest magnitude of an output: what sums in another order may differ by without a question
QUICK = {"float64": 1e-12, "float32": 5e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
NOISE = {"float64": 2e-16, "float32": 1.2e-7, "float16": 1e-3, "bfloat16": 8e-3}  # a rounding
REPEATS = 4  # disturbed runs
FACTOR = 16.0  # by which a difference may exceed the largest of the disturbed runs'
AGREED, BY_REFERENCE, ILL_CONDITIONED, WRONG = "agreed", "agreed with the reference", "ill conditioned", "wrong"


@dataclass(frozen=True)
class Judgement:
    """What was found of one output: AGREED, BY_REFERENCE, ILL_CONDITIONED or WRONG, and a sentence where it differs."""

    verdict: str
    text: str = ""


def difference(got: np.ndarray, want: np.ndarray, scale: float) -> str | None:
    """What is different, or None: a sentence. *scale* is the allowed part of the largest magnitude."""
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if got.dtype != want.dtype:
        return f"element type {got.dtype}, expected {want.dtype}"
    if got.size == 0:
        return None
    if not is_float(got.dtype):
        wrong = got != want
        if not wrong.any():
            return None
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        return f"{int(wrong.sum())} of {got.size} differ, at {at}: {got[at]}, expected {want[at]}"
    a, b = got.astype("float64"), want.astype("float64")
    finite = np.isfinite(b)
    with np.errstate(invalid="ignore"):
        special = ~finite & ~((np.isnan(a) & np.isnan(b)) | (a == b)) | finite & ~np.isfinite(a)
        if special.any():
            at = tuple(int(k) for k in np.argwhere(special)[0])
            return f"{int(special.sum())} of {got.size} are {a[at]} instead of {b[at]}, first at {at}"
        error = np.where(finite, np.abs(a - b), 0)
    span = float(np.abs(b[finite]).max(initial=0))
    allowed = scale * span + 2 * float(np.abs(np.nextafter(got.dtype.type(0), got.dtype.type(1))))
    if not (error > allowed).any():
        return None
    at = tuple(int(k) for k in np.unravel_index(int(error.argmax()), error.shape))
    return f"off by {error.max():.3g} of {span:.3g} at {at}: {a[at]:.9g}, expected {b[at]:.9g}"


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

    *rounding* is the relative error that the configuration allows itself in operands (2**-8 for bfloat16 products), or
    None where it computes in the model's own types.
    """

    model: ModelProto
    feeds: Feeds
    wanted: list[np.ndarray]
    known: dict[float, list[list[np.ndarray]]] = field(default_factory=dict)
    exact: dict[int, np.ndarray | None] = field(default_factory=dict)

    def judge(self, index: int, got: np.ndarray, rounding: float | None = None) -> Judgement:
        """Whether *got* is right for output *index*."""
        want = self.wanted[index]
        scale = QUICK.get(str(want.dtype), 0.0)
        found = difference(got, want, scale)
        if found is None:
            return Judgement(AGREED)
        if got.shape == want.shape and got.dtype == want.dtype:
            for name, others in (("optimised", self.optimised), ("reference", self.reference)):
                if others is not None and difference(got, others[index], scale) is None:
                    return Judgement(BY_REFERENCE, f"{name}: {found}")
            if is_float(got.dtype) and self._within_conditioning(index, got, rounding):
                return Judgement(ILL_CONDITIONED, found)
        return Judgement(WRONG, found)

    def _within_conditioning(self, index: int, got: np.ndarray, rounding: float | None) -> bool:
        want = self.wanted[index].astype("float64")
        size = rounding or NOISE.get(str(got.dtype), 1.2e-7)
        disturbed = self._disturbed(max(size, 1.2e-7 if rounding is None and self.has_float32 else size))
        if not disturbed:
            return False
        spread = np.zeros(want.shape)
        unsure = np.zeros(want.shape, bool)
        with np.errstate(invalid="ignore", over="ignore"):
            for one in disturbed:
                other = one[index].astype("float64")
                if other.shape != want.shape:
                    return False
                same = (other == want) | (np.isnan(other) & np.isnan(want))
                unsure |= ~same & ~(np.isfinite(other) & np.isfinite(want))
                spread = np.maximum(spread, np.where(np.isfinite(other - want), np.abs(other - want), 0))
            allowed = FACTOR * float(spread.max(initial=0))
            exact = self.in_float64(index)
            truth = want if exact is None else exact.astype("float64")
            if truth.shape == want.shape:
                far = np.where(np.isfinite(want - truth), np.abs(want - truth), 0)
                allowed = max(allowed, 2 * float(far.max(initial=0)))
            else:
                truth = want
            a = got.astype("float64")
            same = (a == truth) | (np.isnan(a) & np.isnan(truth)) | (a == want) | (np.isnan(a) & np.isnan(want))
            near = np.isfinite(a - truth) & (np.abs(a - truth) <= allowed)
        return bool((same | near | unsure).all())

    def _disturbed(self, size: float) -> list[list[np.ndarray]]:
        if size not in self.known:
            runs: list[list[np.ndarray]] = []
            for seed in range(REPEATS):
                try:
                    values = evaluate(self.model, self.feeds, Noise(size, EXACT, seed))
                except NotApplicable:
                    continue
                runs.append([values[o.name] for o in self.model.graph.output])
            self.known[size] = runs
        return self.known[size]

    @property
    def has_float32(self) -> bool:
        """True when a value of the model is float32: an output in float64 may have come through it."""
        types = [i.type.tensor_type.elem_type for i in self.model.graph.input]
        types += [w.data_type for w in self.model.graph.initializer]
        return 1 in types or any(node.op_type in ("Cast", "Constant") for node in self.model.graph.node)

    @cached_property
    def optimised(self) -> list[np.ndarray] | None:
        """ONNX Runtime with everything on, or None where it cannot."""
        try:
            return session(self.model, optimised=True).run(None, self.feeds)
        except (*ORT_ERRORS, RuntimeError):
            return None

    @cached_property
    def reference(self) -> list[np.ndarray] | None:
        """ONNX's reference in the model's own types, or None where it cannot."""
        try:
            return run_reference(self.model, self.feeds)
        except NotApplicable:
            return None

    def in_float64(self, index: int) -> np.ndarray | None:
        """Output *index* by ONNX's reference with every floating-point type made float64, or None where it cannot.

        The nodes that the output does not read are left out: what the reference cannot do there is of no weight here.
        """
        if index not in self.exact:
            try:
                model, feeds = in_float64(only_output(self.model, index), self.feeds)
                self.exact[index] = run_reference(model, feeds)[0]
            except NotApplicable:
                self.exact[index] = None
        return self.exact[index]
