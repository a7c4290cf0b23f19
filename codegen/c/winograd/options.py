"""What a user allows of Winograd's method, and what is chosen from: its options, its search space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.winograd.choice import GAIN, candidates, cycles, direct_cycles
from byoc.codegen.c.winograd.convolution import Convolution
from byoc.codegen.c.winograd.sizes import WinogradPlan
from byoc.codegen.kernel.choice import Choice, Choices, SearchSpace
from byoc.errors import CompileError
from byoc.runtime.core.ndarray import NDArray
from byoc.te import Tensor
from byoc.te.expr import INDEX, Binary, Intrinsic
from byoc.te.walk import loaded_tensors, unique_nodes

# the error of F(m x m, 3 x 3) in float32 relative to the largest output, for up to 512 channels, against float64, as
# tests hold it; a sum term by term is at 2e-6
ERRORS = {2: 2e-6, 4: 1e-5}
CHOICES: dict[str, tuple[int, ...]] = {"auto": tuple(ERRORS), "off": (), "f2": (2,), "f4": (4,)}


@dataclass(frozen=True)
class WinogradOptions:
    """Which F(m x m, 3 x 3) may be used; *forced*: wherever one is possible, so that only its blocks are chosen."""

    outputs: tuple[int, ...] = tuple(ERRORS)
    forced: bool = False
    strict: bool = False

    @staticmethod
    def of(options: Mapping[str, object], backend: str = "c") -> WinogradOptions:
        """From options of *backend*.

        ``winograd``: "auto" (the default), "off", "f2" or "f4" wherever it is possible. ``max_error``: the error that
        is allowed, relative to the largest output of a convolution; that of F(4, 3) by default. ``strict``: sums are
        added term by term as the operator says, so none of it, and a softmax divides before what sums its weights.

        Raises CompileError for another value.
        """
        choice, strict = options.get("winograd", "auto"), options.get("strict", False)
        error = options.get("max_error", ERRORS[4])
        if not isinstance(choice, str) or choice not in CHOICES:
            raise CompileError(f"option 'winograd' of backend {backend} is one of {', '.join(CHOICES)}, got {choice!r}")
        if not isinstance(strict, bool):
            raise CompileError(f"option 'strict' of backend {backend} is True or False, got {strict!r}")
        if isinstance(error, bool) or not isinstance(error, int | float) or not error >= 0:
            raise CompileError(f"option 'max_error' of backend {backend} is a number from 0 on, got {error!r}")
        allowed = tuple(m for m in CHOICES[choice] if ERRORS[m] <= error and not strict)
        return WinogradOptions(allowed, choice in ("f2", "f4"), strict)


DEFAULT = WinogradOptions()  # where no options are given


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
        """Every method that is allowed with the cycles that it takes, the best first.

        A plan is only worth its larger weights where it takes less than GAIN of what the direct method takes.
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
