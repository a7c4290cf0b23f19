"""How well a kernel suits an operator under an ordered list of places: Paddle Lite's ``KernelGrade``.

For place i of n a kernel has points for its target, precision and layout (the most divided by 1, 2 and 4), they are
doubled by what the operator's tensors say, and weighted by (n - i) / n; the best place counts, the first of equals.
Two formulas by name, ``document`` (the published description) and ``code`` (``static_kernel_pick_pass.h``). Where these
disagree with themselves, we take:

- the divisors 1, 2, 4 that both print, not the 1/4 and 1/8 of the document's prose;
- 255 as the most, the code's ``unsigned char``, with division of integers; the document's ``int`` is
  ``replace(FORMULAS["document"], most=2**31 - 1)``;
- no points for the device, for which the code has a factor that it never applies: a kernel of a target runs on each of
  its devices, and the place that won says on which;
- the document compares the precisions of inputs and outputs, the code those of inputs (``feed``: of outputs) and adds
  one for each that is compatible. The code's total is float32 and cut to an integer, the document's is exact.

**The gate** is ours: a place on another target counts nothing for a kernel. Without it (*gate* False) an ARM kernel may
win by an OpenCL place that shares its precision and layout, as it does there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from byoc.errors import PartitionError
from byoc.partition.place import ANY, HOST, Place, Precision
from byoc.partition.places.kernel import Kernel

_MATMULS = frozenset(["matmul", "matmul_v2"])


@dataclass(frozen=True)
class KernelArgument:
    """A tensor of the graph as an operator's input or output *name*; *persistable* is a weight."""

    name: str
    precision: Precision
    persistable: bool = False
    kind: str = "Tensor"


@dataclass(frozen=True)
class KernelRequest:
    """An operator that wants a kernel. *label* is what messages call it.

    *int8*: it carries ``enable_int8``. *opaque*: it holds graphs of its own (a sub-graph, control flow), so that the
    kinds of its inputs are not compared. *feeds*: it brings an input of the model, so that its outputs are compared.
    """

    op: str
    inputs: tuple[KernelArgument, ...] = ()
    outputs: tuple[KernelArgument, ...] = ()
    int8: bool = False
    opaque: bool = False
    feeds: bool = False
    label: str = ""

    def __str__(self) -> str:
        return f"{self.op} ({self.label})" if self.label else self.op


@dataclass(frozen=True)
class GradeRow:
    """One kernel under one place: its points by factor, *inputs* one for each that is compatible, what doubled them,
    the place's weight and the total. *gated*: the place is on another target, so that the total is 0. *best* is the
    place that counts for the kernel, *winner* the row that was chosen.
    """

    kernel: Kernel
    place: Place
    target: int
    precision: int
    layout: int
    inputs: int
    doubled: tuple[str, ...]
    weight: Fraction
    total: Fraction
    gated: bool = False
    best: bool = False
    winner: bool = False

    @property
    def points(self) -> int:
        """The points before weighting."""
        return (self.target + self.precision + self.layout + self.inputs) << len(self.doubled)


Agrees = Callable[[KernelRequest, Kernel], bool]


@dataclass(frozen=True)
class Formula:
    """How points are given. *wildcards*: ``any`` on either side is equal to all. *doublings*: by name, what doubles.

    *counts_inputs*: one point for each compatible input. *int8_needs_mark*: an int8 kernel has points for its precision
    only where the operator carries ``enable_int8``, and for such an operator *precisions* is not asked. *rounds*: the
    total is a float32 cut to an integer.
    """

    name: str
    doublings: Mapping[str, Agrees]
    most: int = 255
    divisors: tuple[int, int, int] = (1, 2, 4)
    wildcards: bool = False
    counts_inputs: bool = False
    int8_needs_mark: bool = False
    rounds: bool = False

    def rows(
        self, request: KernelRequest, kernel: Kernel, places: Sequence[Place], gate: bool = True
    ) -> list[GradeRow]:
        """A row for each of *places*, with the best marked."""
        doubled = tuple(name for name, agrees in self.doublings.items() if agrees(request, kernel))
        inputs = self._compatible_inputs(request, kernel)
        found = [
            self._row(request, kernel, place, Fraction(len(places) - i, len(places)), inputs, doubled, gate)
            for i, place in enumerate(places)
        ]
        best = max((r for r in found if not r.gated), key=lambda r: r.total, default=None)
        return [replace(r, best=True) if r is best else r for r in found]

    def score(self, row: GradeRow) -> Fraction:
        """What kernels are ranked by: the total, cut to an integer where the formula does that."""
        return Fraction(int(row.total)) if self.rounds else row.total

    def _row(
        self,
        request: KernelRequest,
        kernel: Kernel,
        place: Place,
        weight: Fraction,
        inputs: int,
        doubled: tuple[str, ...],
        gate: bool,
    ) -> GradeRow:
        mine = kernel.place
        target, precision, layout = (
            self.most // divisor if self._same(a, b) else 0
            for a, b, divisor in zip(
                (mine.target, mine.precision, mine.layout),
                (place.target, place.precision, place.layout),
                self.divisors,
                strict=True,
            )
        )
        if self.int8_needs_mark and mine.precision == Precision.INT8 and not request.int8:
            precision = 0
        points = (target + precision + layout + inputs) << len(doubled)
        gated = gate and not same_target(mine.target, place.target)
        total = Fraction(0) if gated else self._total(weight, points)
        return GradeRow(kernel, place, target, precision, layout, inputs, doubled, weight, total, gated)

    def _same(self, a: str, b: str) -> bool:
        return a == b or (self.wildcards and ANY in (a, b))

    def _total(self, weight: Fraction, points: int) -> Fraction:
        if not self.rounds:
            return weight * points
        share = np.float32(weight.numerator) / np.float32(weight.denominator)
        return Fraction(float(share * np.float32(points)))

    def _compatible_inputs(self, request: KernelRequest, kernel: Kernel) -> int:
        if not self.counts_inputs or request.feeds or (self.int8_needs_mark and request.int8):
            return 0
        return sum(compatible(a.precision, _declared_input(kernel, a)) for a in request.inputs)


def same_target(a: str, b: str) -> bool:
    """Whether a place on target *b* may count for a kernel of target *a*."""
    return a == b or ANY in (a, b)


def compatible(given: Precision, declared: Precision) -> bool:
    """Whether a tensor of precision *given* suits what a kernel declares: equal, ``any``, or both fp16 or float."""
    halves = (Precision.FLOAT, Precision.FP16)
    return given == declared or declared == Precision.ANY or (given in halves and declared in halves)


def _declared_input(kernel: Kernel, argument: KernelArgument) -> Precision:
    return kernel.input_type(argument.name).precision


def _declared_output(kernel: Kernel, argument: KernelArgument) -> Precision:
    return kernel.output_type(argument.name).precision


def _equal_precisions(request: KernelRequest, kernel: Kernel) -> bool:
    """The declared precisions of all inputs and outputs are the graph's."""
    return all(_declared_input(kernel, a) == a.precision for a in request.inputs) and all(
        _declared_output(kernel, a) == a.precision for a in request.outputs
    )


def _compatible_precisions(request: KernelRequest, kernel: Kernel) -> bool:
    """The precisions of all inputs are compatible; for what feeds the model those of outputs are equal."""
    if request.int8:
        return False
    if request.feeds:
        return all(_declared_output(kernel, a) == a.precision for a in request.outputs)
    return all(compatible(a.precision, _declared_input(kernel, a)) for a in request.inputs)


def _same_kinds(request: KernelRequest, kernel: Kernel) -> bool:
    """Each input that is no weight is the kind of thing that the kernel declares."""
    return not request.opaque and all(
        a.kind == kernel.input_type(a.name).kind for a in request.inputs if not a.persistable
    )


def _weights_where_wanted(request: KernelRequest, kernel: Kernel) -> bool:
    """An OpenCL product takes its weights from the host, or has none and takes both operands from OpenCL."""
    if request.op not in _MATMULS or kernel.place.target != "opencl" or not request.inputs:
        return False
    weights = [a for a in request.inputs if a.persistable]
    wanted = HOST if weights else "opencl"
    return all(kernel.input_type(a.name).target == wanted for a in weights or request.inputs)


FORMULAS: Mapping[str, Formula] = {
    "document": Formula("document", {"precisions": _equal_precisions}),
    "code": Formula(
        "code",
        {"precisions": _compatible_precisions, "kinds": _same_kinds, "opencl products": _weights_where_wanted},
        wildcards=True,
        counts_inputs=True,
        int8_needs_mark=True,
        rounds=True,
    ),
}


def formula_of(formula: str | Formula) -> Formula:
    """A formula by its name. Raises PartitionError with the known ones."""
    if isinstance(formula, Formula):
        return formula
    if formula not in FORMULAS:
        raise PartitionError(f"no formula is called {formula!r}; known: {', '.join(FORMULAS)}")
    return FORMULAS[formula]
