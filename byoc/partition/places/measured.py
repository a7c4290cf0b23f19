"""Choosing kernels by time (pick ``measure``): what each kernel of each operator took, and what casts take.

Mode ``local`` takes the fastest kernel of each operator. Mode ``joint`` takes the kernels whose times and casts add up
to least, so that a kernel that is fastest alone and far from its neighbours is not chosen. It goes over the operators
in order and keeps, for each way in which the tensors still to be read may lie, the least time so far (dynamic
programming over the frontier); a reader brings a tensor from wherever it lies already by the fastest casts. Beyond
*most* ways the slowest are dropped, and the answer says that it is not proven. Paddle Lite only proposes this: its
document describes both modes and has neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from byoc.errors import PartitionError
from byoc.partition.places.cast_rules import CastRules, State, Step
from byoc.partition.places.grade import same_target
from byoc.partition.places.graph import Graph, Operator
from byoc.partition.places.infer import demand, made_type
from byoc.partition.places.kernel import KERNELS, Kernel, KernelRegistry
from byoc.partition.places.pick import place_of, valid_places
from byoc.partition.places.place import Place, Precision
from byoc.partition.places.tensor_type import TensorTy, settled

Time = Callable[[Kernel, Operator, Graph], float]
CastTime = Callable[[Step, int], float]  # the step, the bytes that it writes
MODES = ("joint", "local")
_Lies = tuple[tuple[int, TensorTy, tuple[State, ...]], ...]  # a tensor, as what it was made, where it lies by now


@dataclass(frozen=True)
class Measured:
    """A graph with kernels chosen by time: *seconds* of kernels and casts, *times* of every kernel that was asked, by
    operator. *exact*: no way was dropped.
    """

    graph: Graph
    seconds: float
    times: tuple[tuple[tuple[Kernel, float], ...], ...]
    exact: bool = True


@dataclass(frozen=True)
class _Way:
    """The operators so far with kernels, and what they and their casts take."""

    seconds: float
    before: _Way | None = None
    operator: Operator | None = None

    def operators(self) -> tuple[Operator, ...]:
        found, way = [], self
        while way.operator is not None:
            found.append(way.operator)
            way = way.before  # type: ignore[assignment]
        return tuple(reversed(found))


def pick_measured(
    graph: Graph,
    places: Iterable[Place | str],
    time: Time,
    cast_time: CastTime,
    kernels: KernelRegistry = KERNELS,
    mode: str = "joint",
    rules: CastRules | None = None,
    most: int = 4096,
) -> Measured:
    """A kernel for each operator of *graph* by time.

    *time* gives the seconds of a kernel for an operator, *cast_time* those of a cast, by its step and the bytes that it
    writes. Raises PartitionError for an unknown mode, an operator without a kernel on the target of a place, and a time
    that is negative or no number.
    """
    if mode not in MODES:
        raise PartitionError(f"no mode is called {mode!r}; known: {', '.join(MODES)}")
    wish = valid_places(places)
    choices = [_choices(o, wish, kernels) for o in graph.operators]
    times = tuple(
        tuple((k, _checked(time(k, c, graph), c)) for c in found for k in (c.kernel,) if k is not None)
        for found in choices
    )
    search = _Search(graph, rules or CastRules(), cast_time, most)
    for n, found in enumerate(choices):
        timed = [(c, t) for c, (_, t) in zip(found, times[n], strict=True)]
        search.step(n, [min(timed, key=lambda pair: pair[1])] if mode == "local" else timed)
    best = search.best()
    return Measured(graph.with_operators(best.operators()), best.seconds, times, search.exact)


def _choices(operator: Operator, places: Sequence[Place], kernels: KernelRegistry) -> list[Operator]:
    """*operator* with each kernel that is on the target of a place, at the first such place's device."""
    if operator.opaque and operator.kernel is not None:
        return [operator]
    found = []
    for kernel in kernels.of(operator.op):
        wish = next((p for p in places if same_target(kernel.place.target, p.target)), None)
        if wish is not None:
            found.append(replace(operator, kernel=kernel, place=place_of(kernel, wish)))
    if not found:
        raise PartitionError(f"no kernel for {operator} at any of the places {', '.join(map(str, places))}")
    return found


def _checked(seconds: object, operator: Operator) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < float("inf"):
        raise PartitionError(f"kernel {operator.kernel} of {operator} takes {seconds!r} s; give a number from 0 on")
    return float(seconds)


class _Search:
    """The least time for each way in which the tensors that are still to be read may lie."""

    def __init__(self, graph: Graph, rules: CastRules, cast_time: CastTime, most: int):
        self.graph, self.rules, self.cast_time, self.most = graph, rules, cast_time, most
        self.exact = True
        self.last = {t: max(n for n, _ in readers) for t, readers in graph.readers.items()}
        self.results: dict[int, list[TensorTy]] = {}
        for tensor, ty in graph.results:
            self.results.setdefault(tensor, []).append(ty)
        lies: dict[int, tuple[TensorTy, tuple[State, ...]]] = {}
        seconds = 0.0
        for tensor in range(len(graph.tensors)):
            if tensor not in graph.producer and (tensor in self.last or tensor in self.results):
                seconds += self._make(lies, tensor, graph.source_type(tensor))
        self.ways: dict[_Lies, _Way] = {self._key(lies, -1): _Way(seconds)}

    def best(self) -> _Way:
        return min(self.ways.values(), key=lambda way: way.seconds)

    def step(self, n: int, choices: Sequence[tuple[Operator, float]]) -> None:
        """Operator number *n* in each of its forms, after each way so far."""
        found: dict[_Lies, _Way] = {}
        for key, way in self.ways.items():
            for operator, seconds in choices:
                after = self._after(n, operator, key)
                if after is None:
                    continue
                lies, casts = after
                total = way.seconds + seconds + casts
                if lies not in found or total < found[lies].seconds:
                    found[lies] = _Way(total, way, operator)
        if not found:
            raise PartitionError(f"no kernel of {self.graph.operators[n]} can be reached by casts; add a rule")
        if len(found) > self.most:
            self.exact = False
            found = dict(sorted(found.items(), key=lambda item: item[1].seconds)[: self.most])
        self.ways = found

    def _after(self, n: int, operator: Operator, key: _Lies) -> tuple[_Lies, float] | None:
        """Where tensors lie after *operator*, and the seconds of the casts for it; None where there is no cast."""
        lies = {tensor: (ty, states) for tensor, ty, states in key}
        taken, seconds = [], 0.0
        for name, tensor in operator.inputs:
            of = self.graph.tensors[tensor]
            wanted = demand(operator.kernel, name, of.precision, operator)  # type: ignore[arg-type]
            found = self._bring(lies, tensor, wanted)
            if found is None:
                return None
            seconds += found[1]
            taken.append((of.precision, found[0]))
        for name, tensor in operator.outputs:
            seconds += self._make(lies, tensor, made_type(self.graph, operator, name, tensor, taken))
        return self._key(lies, n), seconds

    def _make(self, lies: dict[int, tuple[TensorTy, tuple[State, ...]]], tensor: int, ty: TensorTy) -> float:
        """A tensor is made as *ty*; the seconds to bring it to where results are wanted."""
        lies[tensor] = (ty, (State.of(ty),))
        brought = [self._bring(lies, tensor, wanted) for wanted in self.results.get(tensor, ())]
        if None in brought:
            raise PartitionError(f"there is no cast that brings {self.graph.tensors[tensor].name} to its result")
        return sum(b[1] for b in brought if b is not None)

    def _bring(
        self, lies: dict[int, tuple[TensorTy, tuple[State, ...]]], tensor: int, wanted: TensorTy
    ) -> tuple[TensorTy, float] | None:
        """A tensor as *wanted*, and the seconds of the casts for that; those of a constant are not counted."""
        (ty, states), of = lies[tensor], self.graph.tensors[tensor]
        types = {State.of(t): t for t in settled(wanted, ty, of.rank)}
        here = next((s for s in types if s in states), None)
        if here is not None:
            return types[here], 0.0

        def seconds(step: Step) -> float:
            return 0.0 if of.constant else self.cast_time(step, of.bytes_as(Precision(step.destination.precision)))

        way = self.rules.cheapest(states, tuple(types), seconds, State.of(ty))
        if way is None:
            return None
        reached = way[1][-1].destination
        lies[tensor] = (ty, tuple(sorted({*states, *(s.destination for s in way[1])})))
        return types[reached], way[0]

    def _key(self, lies: Mapping[int, tuple[TensorTy, tuple[State, ...]]], n: int) -> _Lies:
        """Where those tensors lie that are read after operator *n*."""
        return tuple((t, ty, states) for t, (ty, states) in sorted(lies.items()) if self.last.get(t, -1) > n)
