"""Direct or by Winograd's method, by which plan: the search space from which a tuner or the cost model chooses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.winograd.choice import GAIN, candidates, cycles, direct_cycles
from byoc.codegen.c.winograd.convolution import Convolution
from byoc.codegen.c.winograd.options import WinogradOptions
from byoc.codegen.c.winograd.plan import WinogradPlan
from byoc.codegen.kernel.choice import Choice, Choices, SearchSpace
from byoc.runtime.core.ndarray import NDArray
from byoc.te import Tensor
from byoc.te.expr import INDEX, Binary, Intrinsic
from byoc.te.walk import loaded_tensors, unique_nodes

DIRECT = Choice.of("direct")
Ranked = list[tuple[float, Choice, WinogradPlan | None]]


@dataclass(frozen=True)
class WinogradChooser:
    """Decides on the convolutions of a program: *choices* are asked first. ``constants`` are the program's."""

    machine: Machine
    allowed: WinogradOptions
    choices: Choices | None = None
    constants: Mapping[Tensor, NDArray] = field(default_factory=dict)

    def plan(self, conv: Convolution) -> WinogradPlan | None:
        """The plan for *conv*, or None to leave it as it is."""
        ranked = self.ranked(conv)
        best = ranked[0][2]
        if self.choices is None or len(ranked) == 1:
            return best
        loaded = loaded_tensors(conv.stage.element)
        kept = {t: self.constants[t] for t in loaded if t in self.constants}
        answers = tuple((cost, choice) for cost, choice, _ in ranked)
        kernel = f"{describe(conv)}; outputs {self.allowed}"
        choice = self.choices.choose(SearchSpace(kernel, answers, conv.stage, kept))
        return next((plan for _, c, plan in ranked if c == choice), best)

    def ranked(self, conv: Convolution) -> Ranked:
        """Every way that is allowed with the cycles that it takes, the best first.

        A plan is only worth its larger weights where it takes less than GAIN of what the direct way takes.
        """
        plans = [p for m in self.allowed.outputs for p in candidates(conv, self.machine, m)]
        ranked: Ranked = [(cycles(p), choice_of(p), p) for p in plans]
        if not ranked or not self.allowed.forced:
            ranked.append((GAIN * direct_cycles(conv, self.machine), DIRECT, None))
        return sorted(ranked, key=lambda row: row[0])


def choice_of(plan: WinogradPlan) -> Choice:
    """*plan* as a choice."""
    return Choice.of(
        "winograd", outputs=plan.outputs, rows=plan.rows, vectors=plan.vectors, blocks=plan.blocks, stored=plan.stored
    )


def describe(conv: Convolution) -> str:
    """What *conv* computes as one canonical text: its sizes, where its image lies, what is done with the sum."""
    shape = ", ".join(str(d) if isinstance(d, int) else "free" for d in conv.stage.shape)
    (top, bottom), (left, right) = conv.inside
    inside = {id(n) for n in unique_nodes(conv.reduce)}
    found = Counter(
        n.op if isinstance(n, Binary) else n.name
        for n in unique_nodes(conv.stage.element)
        if id(n) not in inside and isinstance(n, Binary | Intrinsic) and n.dtype != INDEX
    )
    after = " ".join(f"{name}*{count}" for name, count in sorted(found.items())) or "stored"
    place = f"image from {top}, {left} to {bottom}, {right}"
    return f"{conv.stage.dtype}[{shape}] = 3x3 over {conv.channels} channels; {place}; then {after}"
