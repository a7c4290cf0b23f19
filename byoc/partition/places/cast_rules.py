"""Which casts there are, and the fewest of them that bring one tensor from its type to several others.

A cast changes one respect: ``target`` (a copy between memories), ``precision`` or ``layout``, where a rule has a kernel
for it. A state is a tensor's memory, device, precision and layout; a *destination* is one or several states of which
one must be made. The fewest casts from one state to a set of destinations are a Steiner arborescence, found exactly by
Dreyfus and Wagner's recurrence (1971) over subsets of the destinations; of equally few those that write the fewest
bytes. A precision is changed at most once on the path to any destination, so
that no number is rounded twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.errors import PartitionError
from byoc.partition.place import ANY, FLOATS, HOST, IMAGES, ITEM_BYTES, DataLayout, Precision
from byoc.partition.places.tensor_type import TensorTy, space_of

KINDS = ("target", "precision", "layout")
MOST_DESTINATIONS = 8
_ONE = 1 << 40  # a cast outweighs all bytes


@dataclass(frozen=True, order=True)
class State:
    """What of a tensor casts change: the memory in which it lies, precision, layout."""

    target: str
    device: int
    precision: str
    layout: str

    @staticmethod
    def of(ty: TensorTy) -> State:
        """The state of a tensor of type *ty*, whose parts are all known."""
        target, device = space_of(ty)
        return State(target, device, str(ty.precision), str(ty.layout))

    def __str__(self) -> str:
        return f"{self.target}/{self.precision}/{self.layout}" + (f"/{self.device}" if self.device else "")


Destination = tuple[State, ...]


@dataclass(frozen=True)
class CastRule:
    """There is a cast of this kind from *source* to *destination*, each ``any`` being all.

    For a cast of precision or layout the targets say where it runs.
    """

    kind: str
    source: TensorTy
    destination: TensorTy

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PartitionError(f"no cast is of kind {self.kind!r}; known: {', '.join(KINDS)}")


_ANY = TensorTy(ANY, ANY, ANY)
_HOST = TensorTy(HOST, ANY, ANY)
# copies to and from the host; every precision and layout anywhere
DEFAULT_RULES = (
    CastRule("target", _HOST, _ANY),
    CastRule("target", _ANY, _HOST),
    CastRule("precision", _ANY, _ANY),
    CastRule("layout", _ANY, _ANY),
)


@dataclass(frozen=True)
class CastStep:
    """One cast of one tensor: from a state to another."""

    kind: str
    source: State
    destination: State


@dataclass(frozen=True, eq=False)
class CastRules:
    """The casts that there are. Paths are found once for each request, since the same recur all over a graph."""

    rules: tuple[CastRule, ...] = DEFAULT_RULES
    _found: dict[tuple[State, tuple[Destination, ...]], tuple[CastStep, ...] | State] = field(default_factory=dict)

    def fewest(self, source: State, destinations: Iterable[Destination]) -> tuple[CastStep, ...]:
        """The fewest casts that make each of *destinations* out of *source*, each after what it reads.

        Raises PartitionError naming a destination that cannot be reached.
        """
        wanted = tuple(sorted({d for d in destinations if source not in d}))
        key = (source, wanted)
        if key not in self._found:
            self._found[key] = self._search(source, wanted)
        found = self._found[key]
        if isinstance(found, State):
            raise PartitionError(f"there is no cast {source} -> {found}")
        return found

    def is_exact(self, destinations: Iterable[Destination]) -> bool:
        """Whether :meth:`fewest` is proven least: up to eight destinations, beyond it adds them one by one."""
        return len(set(destinations)) <= MOST_DESTINATIONS

    def kind_between(self, x: State, y: State) -> str | None:
        """The kind of the cast from *x* to *y*; None where they differ in more than one respect or no rule has it."""
        kind = _difference(x, y)
        return (
            kind
            if kind and any(r.kind == kind and _matches(r.source, x) and _matches(r.destination, y) for r in self.rules)
            else None
        )

    def _search(self, source: State, wanted: Sequence[Destination]) -> tuple[CastStep, ...] | State:
        if not wanted:
            return ()
        graph = _StateGraph(self, source, wanted)
        lost = next((w for w in wanted if not graph.reaches(w)), None)
        if lost is not None:
            return lost[0]
        return graph.exact() if len(wanted) <= MOST_DESTINATIONS else graph.one_by_one()


def rounds_twice(origin: State, x: State, y: State) -> bool:
    """Whether a cast from *x* to *y* changes the precision of numbers that were *origin*'s a second time."""
    return x.precision not in (y.precision, origin.precision)


def _difference(x: State, y: State) -> str | None:
    parts = [(x.target, x.device) != (y.target, y.device), x.precision != y.precision, x.layout != y.layout]
    return KINDS[parts.index(True)] if sum(parts) == 1 else None


def _matches(ty: TensorTy, state: State) -> bool:
    return (
        (ty.target == ANY or space_of(ty)[0] == state.target)
        and ty.precision in (Precision.ANY, state.precision)
        and ty.layout in (DataLayout.ANY, state.layout)
    )


class _StateGraph:
    """The states that matter for one request, numbered, and the casts between them; state 0 is the source."""

    def __init__(self, rules: CastRules, source: State, wanted: Sequence[Destination]):
        self.states = _universe(rules.rules, source, wanted)
        self.number = {s: k for k, s in enumerate(self.states)}
        self.goals = [[self.number[s] for s in destination if s in self.number] for destination in wanted]
        self.kinds: dict[tuple[int, int], str] = {}
        for x in self.states:
            for y in self.states:
                kind = None if rounds_twice(source, x, y) else rules.kind_between(x, y)
                if kind is not None:
                    self.kinds[self.number[x], self.number[y]] = kind
        self.length, self.after = self._shortest()

    def reaches(self, destination: Destination) -> bool:
        return any(self.number.get(s) in self.length[0] for s in destination)

    def _shortest(self) -> tuple[list[dict[int, int]], list[dict[int, int]]]:
        """For each pair the length of the shortest path, and the first state after the start (Floyd and Warshall)."""
        count = len(self.states)
        length: list[dict[int, int]] = [{k: 0} for k in range(count)]
        after: list[dict[int, int]] = [{} for _ in range(count)]
        for x, y in self.kinds:
            length[x][y], after[x][y] = _ONE + ITEM_BYTES[Precision(self.states[y].precision)], y
        for middle in range(count):
            for x in range(count):
                here = length[x].get(middle)
                if here is None:
                    continue
                for y, rest in length[middle].items():
                    if here + rest < length[x].get(y, here + rest + 1):
                        length[x][y], after[x][y] = here + rest, after[x][middle]
        return length, after

    def exact(self) -> tuple[CastStep, ...]:
        """Dreyfus and Wagner: the least tree below state v for a set of destinations, by splitting the set."""
        count, everything = len(self.states), (1 << len(self.goals)) - 1
        best: list[list[int | None]] = [[None] * count for _ in range(everything + 1)]
        choice: list[list[tuple[int, int]]] = [[(-1, 0)] * count for _ in range(everything + 1)]
        for k, goals in enumerate(self.goals):
            for v in range(count):
                near = [(self.length[v][g], rank, g) for rank, g in enumerate(goals) if g in self.length[v]]
                if near:
                    best[1 << k][v], choice[1 << k][v] = min(near)[0], (min(near)[2], 0)
        for chosen in range(1, everything + 1):
            if chosen & (chosen - 1):
                self._join(chosen, best, choice)
        edges: dict[tuple[int, int], None] = {}
        self._collect(everything, 0, choice, edges)
        return self._steps(edges)

    def _join(self, chosen: int, best: list[list[int | None]], choice: list[list[tuple[int, int]]]) -> None:
        """The least trees for the set *chosen*: go to a state u, and part there."""
        split: list[tuple[int, int, int]] = []
        for u in range(len(self.states)):
            part, found = (chosen - 1) & chosen, None
            while part:
                one, other = best[part][u], best[chosen ^ part][u]
                if one is not None and other is not None and (found is None or one + other < found[0]):
                    found = (one + other, part)
                part = (part - 1) & chosen
            if found is not None:
                split.append((u, *found))
        for v in range(len(self.states)):
            for u, cost, part in split:
                way = self.length[v].get(u)
                known = best[chosen][v]
                if way is not None and (known is None or way + cost < known):
                    best[chosen][v], choice[chosen][v] = way + cost, (u, part)

    def _collect(
        self, chosen: int, v: int, choice: list[list[tuple[int, int]]], edges: dict[tuple[int, int], None]
    ) -> None:
        u, part = choice[chosen][v]
        self._walk(v, u, edges)
        if part:
            self._collect(part, u, choice, edges)
            self._collect(chosen ^ part, u, choice, edges)

    def one_by_one(self) -> tuple[CastStep, ...]:
        """A tree grown to the nearest destination left, again and again: at most twice the least where casts go both
        ways.
        """
        edges: dict[tuple[int, int], None] = {}
        inside, left = {0: None}, self.goals
        while left:
            reach = ((self.length[u][g], u, g) for goals in left for g in goals for u in inside if g in self.length[u])
            _, u, goal = min(reach)
            self._walk(u, goal, edges)
            inside.update(dict.fromkeys(y for _, y in edges))
            left = [goals for goals in left if not any(g in inside for g in goals)]
        return self._steps(edges)

    def _walk(self, v: int, goal: int, edges: dict[tuple[int, int], None]) -> None:
        while v != goal:
            step = self.after[v][goal]
            edges[v, step] = None
            v = step

    def _steps(self, edges: Mapping[tuple[int, int], None]) -> tuple[CastStep, ...]:
        """The edges as casts, from the source outwards; a state that is reached twice is made once."""
        made, order = {0}, []
        grown = True
        while grown:
            grown = False
            for x, y in edges:
                if x in made and y not in made:
                    made.add(y)
                    order.append(CastStep(self.kinds[x, y], self.states[x], self.states[y]))
                    grown = True
        return tuple(order)


def _universe(rules: Sequence[CastRule], source: State, wanted: Sequence[Destination]) -> list[State]:
    """The source, then every combination of the memories, precisions and layouts that are there or that rules name."""
    named = [ty for rule in rules for ty in (rule.source, rule.destination)]
    ends = [source, *(s for destination in wanted for s in destination)]
    spaces = {(s.target, s.device) for s in ends} | {space_of(t) for t in named if t.target != ANY}
    precisions = {s.precision for s in ends}
    layouts = {s.layout for s in ends} | {str(t.layout) for t in named if t.layout != DataLayout.ANY}
    states = sorted(
        s
        for t, d in spaces
        for p in precisions
        for y in layouts
        if (s := State(t, d, p, y)) in ends or not (t == HOST and y in IMAGES)  # images are objects of a device
    )
    return [source, *(s for s in states if s != source)]


def needs_scale(step: CastStep) -> bool:
    """Whether a cast is a quantization: between a float and a number of 8 bits."""
    pair = {step.source.precision, step.destination.precision}
    return step.kind == "precision" and bool(pair & {"int8", "uint8"}) and bool(pair & set(map(str, FLOATS)))
