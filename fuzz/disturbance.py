"""How far rounding may move every value of a model: runs of it in which each value has rounding errors put in.

Two kinds of runs, so that a step of a discontinuous function is no licence for errors as large as that step:

- *Smooth* runs disturb what nodes that compute read, and give each node that jumps (its result is an integer, a boolean
  or a whole number, made from floats) its undisturbed discrete result. The largest change that they make in a value,
  ``FACTOR`` times, is its *noise*: a value of the configuration under test may be so far from the true one.
  A remainder has the noise of its dividend (``remainders.py``).
- *Jumping* runs move what a jumping node reads by its noise, each element up or down, and let it jump. An element of a
  discrete value may be anything between the least and the greatest of these runs: another one than the undisturbed only
  if a value within the noise rounds, compares or sorts otherwise. What is exact (inputs of the model, and what only
  moves or quantizes them) has no noise: there a tie must be rounded as ONNX says. A divisor within its noise of 0 may
  be 0, so that its quotient may be anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from fuzz.case import Feeds
from fuzz.configurations import Narrowing
from fuzz.generators.draft import EXACT
from fuzz.judge.oracle import Noise, NotApplicable, is_float, opset_of, read_names, run_node
from fuzz.judge.orders import ORDERS, extreme_positions
from fuzz.judge.remainders import moved_dividend, unbroken
from fuzz.promote import STATED

SMOOTH, JUMPING = 4, 16  # runs; an element goes both up and down in 16 but once in 32,768
RARE = 256  # jumping runs, to see elements that depend on several jumps at once both ways
FACTOR = 16.0  # by which a difference may exceed the largest of the smooth runs'
# the input at whose 0 an operator's result is no number, or beyond which there is none
EDGES = {"Div": 1, "Reciprocal": 0, "Log": 0, "Sqrt": 0, "Pow": 0}
READS_NO_ELEMENT = frozenset(["Shape", "Size"])
REMAINDER = "Mod"
STEPS = frozenset(["Floor", "Ceil", "Round", "Sign", REMAINDER, "Hardmax"])  # floats that step
PRODUCTS = frozenset(  # whose numbers a lower precision rounds: all that byoc makes products of, float by float
    "AffineGrid Attention CausalConvWithState Conv ConvTranspose DeformConv Einsum FlexAttention FusedMatMul GRU Gemm "
    "LSTM LinearAttention MatMul RNN TransposeMatMul".split()
)
CARRIES = frozenset(
    [  # what a lower precision may round on the other side of: it gives the same numbers
        "Reshape",
        "Transpose",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Identity",
        "Cast",
        "Slice",
        "Split",
        "Concat",
        "Pad",
        "Expand",
        "Tile",
        "Gather",
        "DepthToSpace",
        "SpaceToDepth",
        "MaxPool",
        "GlobalMaxPool",
    ]
)


@dataclass
class Disturbance:
    """The disturbed runs of *model* on *feeds*: *size* is the relative rounding of its own types' arithmetic."""

    model: ModelProto
    feeds: Feeds
    size: float
    narrowing: Narrowing | None = None
    noise_of: dict[str, float] = field(default_factory=dict)
    jumping_runs: int = JUMPING

    @cached_property
    def base(self) -> Feeds:
        """Every value, undisturbed."""
        return self._run(None, False)

    @cached_property
    def smooth(self) -> list[Feeds]:
        """The smooth runs that could be computed."""
        return list(self._runs(SMOOTH, jumping=False))

    @cached_property
    def jumping(self) -> list[Feeds]:
        """The jumping runs that could be computed."""
        nodes = self.model.graph.node
        needed = any(map(self.jumps, nodes)) or any(self._edge(node) for node in nodes)
        return list(self._runs(self.jumping_runs, jumping=True)) if needed else self.smooth

    def with_rare_jumps(self) -> Disturbance:
        """The same with so many jumping runs that what several jumps make together is seen too."""
        return replace(self, jumping_runs=RARE)

    def noise(self, name: str) -> float:
        """How far elements of the float value *name* may be from the true ones."""
        if name not in self.noise_of:
            true, largest = self.base[name].astype("float64"), 0.0
            for run in self.smooth:
                if run[name].shape == true.shape:
                    with np.errstate(invalid="ignore"):
                        change = np.abs(run[name].astype("float64") - true)
                    largest = max(largest, float(change[np.isfinite(change)].max(initial=0)))
            self.noise_of[name] = FACTOR * largest
        return self.noise_of[name]

    def hull(self, name: str) -> tuple[np.ndarray, np.ndarray] | None:
        """The least and the greatest of each element in all runs; None where a run has another shape."""
        runs = [self.base[name], *(run[name] for run in self.jumping)]
        if any(v.shape != runs[0].shape for v in runs):
            return None
        wide = [v.astype("float64") if is_float(v.dtype) else v for v in runs]
        return np.min(wide, axis=0), np.max(wide, axis=0)

    def jumps(self, node: NodeProto) -> bool:
        """Whether *node* makes a discrete value of floats."""
        floats = [n for n in read_names(node) if n in self.base and is_float(self.base[n].dtype)]
        if not floats or node.op_type in READS_NO_ELEMENT:
            return False
        return node.op_type in STEPS or any(not is_float(self.base[o].dtype) for o in node.output if o)

    def follows_a_jump(self, name: str) -> bool:
        """Whether *name* is computed from what a node that jumps made."""
        found = {name}
        for node in reversed(self.model.graph.node):
            if found.intersection(node.output):
                if self.jumps(node):
                    return True
                found.update(read_names(node))
        return False

    @cached_property
    def narrowed(self) -> frozenset[str]:
        """The values that a product reads, or what carries their elements to a product."""
        found: set[str] = set()
        for node in reversed(self.model.graph.node):
            carries = node.op_type in CARRIES and found.intersection(node.output)
            if self.narrowing and (carries or node.op_type in PRODUCTS):
                found.update(node.input)
        return frozenset(found)

    def _runs(self, count: int, jumping: bool) -> Iterator[Feeds]:
        for seed in range(count):
            try:
                yield self._run(seed, jumping)
            except NotApplicable:
                continue

    def _run(self, seed: int | None, jumping: bool) -> Feeds:
        """Every value, node by node, undisturbed without a *seed*. Raises NotApplicable where a node has no answer."""
        opset = opset_of(self.model)
        numbers = None if seed is None else np.random.default_rng(seed)
        values: Feeds = {}
        rounding = None if numbers is None else Noise(self.size, EXACT | STATED, numbers)
        constants = {w.name: numpy_helper.to_array(w) for w in self.model.graph.initializer}
        self._keep({**constants, **self.feeds}, values, numbers)
        for node in self.model.graph.node:
            is_jump = numbers is not None and self.jumps(node)
            given = values
            if jumping and numbers is not None and seed is not None:
                given = self._at_edge(node, values, seed)
                if is_jump:
                    given = self._remainder_moved(node, given, seed) or self._moved(node, given, numbers)
            found = run_node(node, opset, rounding(node, given) if rounding else given)
            made = dict(zip([n for n in node.output if n], found, strict=True))
            if jumping and seed in (0, 1):
                made |= self._ordered(node, made, last=seed == 1)
            if is_jump and not jumping:
                made = {n: v if self._is_smooth(node, v) else self._held(node, n, values) for n, v in made.items()}
            self._keep(made, values, numbers)
        return values

    def _is_smooth(self, node: NodeProto, value: np.ndarray) -> bool:
        return is_float(value.dtype) and node.op_type not in STEPS

    def _held(self, node: NodeProto, name: str, values: Feeds) -> np.ndarray:
        """Output *name* of a node that jumps, on the side where it is when nothing is disturbed."""
        if node.op_type == REMAINDER and is_float(self.base[name].dtype):
            return unbroken([self.base[n] for n in node.input], [values[n] for n in node.input])
        return self.base[name]

    def _edge(self, node: NodeProto) -> str | None:
        """The float value whose 0 is an edge of *node*, where it has noise and comes within it of 0."""
        name = node.input[EDGES[node.op_type]] if node.op_type in EDGES else ""
        if not name or not is_float(self.base[name].dtype) or not self.noise(name):
            return None
        with np.errstate(invalid="ignore"):
            return name if (np.abs(self.base[name].astype("float64")) <= self.noise(name)).any() else None

    def _at_edge(self, node: NodeProto, values: Feeds, turn: int) -> Feeds:
        """*values* with what is within its noise of an edge of *node* there, below it, and as it is, by turns."""
        name = self._edge(node)
        if name is None:
            return values
        value, noise = values[name].astype("float64"), self.noise(name)
        with np.errstate(invalid="ignore"):
            moved = np.where(np.abs(value) <= noise, (0.0, -noise)[turn % 2], value)
        return values if turn % 3 == 2 else {**values, name: moved.astype(values[name].dtype)}

    def _ordered(self, node: NodeProto, made: Feeds, last: bool) -> Feeds:
        """The positions by order among what *node* *made*, each the first or the *last* that it may be."""
        value = self.base[node.input[0]] if node.op_type in ORDERS else None
        if value is None or not is_float(value.dtype) or not value.size or not self.noise(node.input[0]):
            return {}
        name = node.output[ORDERS[node.op_type]]
        if name not in made:
            return {}
        return {name: extreme_positions(node, value, made[name], self.noise(node.input[0]), last)}

    def _remainder_moved(self, node: NodeProto, values: Feeds, turn: int) -> Feeds | None:
        """*values* with the dividend of a remainder moved, or None for another node."""
        if node.op_type != REMAINDER:
            return None
        dividend, divisor = node.input
        with np.errstate(all="ignore"):
            multiples = np.abs(np.trunc(self.base[dividend].astype("float64") / self.base[divisor].astype("float64")))
        most = float(multiples[np.isfinite(multiples)].max(initial=0))
        noise = self.noise(dividend) + most * self.noise(divisor)
        found = moved_dividend(values[dividend], values[divisor], noise, node.output[0], turn)
        return {**values, dividend: found}

    def _keep(self, made: Feeds, values: Feeds, numbers: np.random.Generator | None) -> None:
        """Put what was *made* among the *values*, rounded where the lower precision rounds it."""
        for name, value in made.items():
            if numbers is not None and self.narrowing is not None and name in self.narrowed and is_float(value.dtype):
                value = narrow(value, self.narrowing, numbers)
            values[name] = value

    def _moved(self, node: NodeProto, values: Feeds, numbers: np.random.Generator) -> Feeds:
        """*values* with the floats that *node* reads moved by their noise, each element up or down."""
        changed: Feeds = {}
        for name in read_names(node):
            if name in values and is_float(values[name].dtype) and self.noise(name):
                value = values[name].astype("float64")
                sign = numbers.choice((-1.0, 1.0), value.shape)
                changed[name] = np.asarray(value + sign * self.noise(name)).astype(values[name].dtype)
        return {**values, **changed}


def narrow(value: np.ndarray, how: Narrowing, numbers: np.random.Generator) -> np.ndarray:
    """*value* with the errors that *how* allows; 0 stays, for every narrow format holds it."""
    wide = value.astype("float64")
    largest = np.abs(wide[np.isfinite(wide)]).max(initial=0)
    error = numbers.uniform(-1, 1, value.shape)
    with np.errstate(all="ignore"):
        moved = wide + error * (how.relative * np.abs(wide) + how.absolute * largest)
    return np.asarray(np.where(wide == 0, wide, moved)).astype(value.dtype)
