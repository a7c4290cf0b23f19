"""Types over a whole graph after kernels were chosen, and the casts where they conflict.

Forwards: an input or constant comes as the graph says, an output is what its kernel declares, where ``any`` is as the
kernel's first float input was taken; numbers that are no floats keep their precision. Then each tensor is brought to
all the types in which it is read by the fewest casts (``cast_rules``), shared by tensor and destination type. A cast
is known by its tensor's number and its destination, never by a name: by name alone the second of two consumers on
different targets reads the other's copy. Source: ``variable_place_inference``, ``type_target_cast``,
``type_precision_cast`` and ``type_layout_cast`` of Paddle Lite, which do this one kind after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from byoc.errors import InternalError, PartitionError
from byoc.partition.place import ANY, FLOATS, DataLayout, Precision
from byoc.partition.places.cast_rules import CastRules, CastStep, State, needs_scale
from byoc.partition.places.graph import Operator, PlaceGraph
from byoc.partition.places.kernel import Kernel
from byoc.partition.places.tensor_type import TensorTy, conflicts, settled

_ONCE_NAMES = {"target": "io_copy", "precision": "calib", "layout": "layout"}


_Reader = tuple[int, int] | int


@dataclass(frozen=True)
class InsertedCast:
    """One inserted cast of *tensor*. *reads* is the number of the cast whose result it takes, None the tensor itself.

    *once*: of a constant, done when building. *bytes* are those it writes. *between*: both ends are operators.
    """

    kind: str
    tensor: int
    source: State
    destination: State
    reads: int | None
    once: bool
    bytes: int
    between: bool = True

    @property
    def operator(self) -> str:
        """The name of its kernel's operator: ``io_copy``, ``calib``, ``layout``, or those with ``_once``."""
        return _ONCE_NAMES[self.kind] + ("_once" if self.once else "")


@dataclass(frozen=True)
class Casting:
    """A graph with types: *types* of each tensor as it is made; *casts*, each after what it reads; *reads* says which
    cast's result the input k of operator n is, *results* the same for the results, None being the tensor itself.

    *exact*: the number of casts of each tensor is proven least.
    """

    graph: PlaceGraph
    types: tuple[TensorTy, ...]
    casts: tuple[InsertedCast, ...]
    reads: Mapping[tuple[int, int], int]
    results: Mapping[int, int]
    exact: bool = True

    def state_read(self, operator: int, argument: int) -> State:
        """The state in which an operator finds its input."""
        tensor = self.graph.operators[operator].inputs[argument][1]
        return self._state(tensor, self.reads.get((operator, argument)))

    def _state(self, tensor: int, cast: int | None) -> State:
        return State.of(self.types[tensor]) if cast is None else self.casts[cast].destination

    def report(self) -> CastReport:
        """How many casts, and how many bytes they write."""
        return CastReport(self.casts)

    def check(self) -> None:
        """Raises InternalError where a tensor is still not what its reader takes."""
        for n, operator in enumerate(self.graph.operators):
            for k, (name, tensor) in enumerate(operator.inputs):
                of = self.graph.tensors[tensor]
                state = self.state_read(n, k)
                made = self.types[tensor]
                read = TensorTy(state.target, state.precision, state.layout, state.device, made.kind)
                wanted = demand(_kernel_of(operator), name, of.precision, operator)
                if conflicts(read, wanted, of.rank):
                    raise InternalError(f"{of.name} is {read} where {operator} reads {wanted}")


@dataclass(frozen=True)
class CastReport:
    """The inserted casts counted: those of constants, done once when building, apart from those of every run."""

    casts: tuple[InsertedCast, ...]

    def count(self, kind: str | None = None, once: bool = False, between: bool | None = None) -> int:
        """How many casts: of a kind; *once* those of constants; *between* operators, or at the model's borders."""
        return len(self._chosen(kind, once, between))

    def bytes(self, kind: str | None = None, once: bool = False, between: bool | None = None) -> int:
        """How many bytes they write."""
        return sum(c.bytes for c in self._chosen(kind, once, between))

    def _chosen(self, kind: str | None, once: bool, between: bool | None) -> list[InsertedCast]:
        return [c for c in self.casts if c.once == once and kind in (None, c.kind) and between in (None, c.between)]

    def __str__(self) -> str:
        parts = []
        for kind, words in (("target", "copies"), ("precision", "casts"), ("layout", "layout transforms")):
            inner, all_ = self.count(kind, between=True), self.count(kind)
            parts.append(f"{all_} {words} of {self.bytes(kind)} bytes a run ({inner} between operators)")
        return "; ".join(parts) + f"; {self.count(once=True)} of constants, once"


def demand(kernel: Kernel, name: str, precision: Precision, operator: Operator) -> TensorTy:
    """What *operator* asks of its input *name*: as declared, else as its place; only a float follows a place."""
    wanted = kernel.input_type(name)
    if name not in kernel.inputs and precision not in FLOATS:
        wanted = replace(wanted, precision=Precision.ANY)
    return _on_device(wanted, kernel, operator)


def _on_device(ty: TensorTy, kernel: Kernel, operator: Operator) -> TensorTy:
    """*ty* on the device and target at which the operator was placed, where it is at the kernel's place."""
    place = operator.place
    if place is None or (ty.target, ty.device) != (kernel.place.target, kernel.place.device):
        return ty
    return replace(ty, target=place.target, device=place.device)


def _kernel_of(operator: Operator) -> Kernel:
    if operator.kernel is None:
        raise PartitionError(f"{operator} has no kernel yet; pick kernels before types are inferred")
    return operator.kernel


def insert_casts(graph: PlaceGraph, rules: CastRules | None = None) -> Casting:
    """Infer the types of *graph*, whose operators have kernels, and insert the fewest casts.

    Raises PartitionError naming the tensor, both types and both operators where there is no cast, or no scale for one.
    """
    return _Inference(graph, rules or CastRules()).run()


class _Inference:
    """Goes over a graph once: a tensor's type is known when its producer is done, and what its readers ask then."""

    def __init__(self, graph: PlaceGraph, rules: CastRules):
        self.graph, self.rules = graph, rules
        self.types: dict[int, TensorTy] = {}
        self.casts: list[InsertedCast] = []
        self.reads: dict[tuple[int, int], int] = {}
        self.results: dict[int, int] = {}
        self.taken: dict[tuple[int, int], TensorTy] = {}
        self.leaving: dict[int, list[int]] = {}
        self.exact = True
        for number, (tensor, _) in enumerate(graph.results):
            self.leaving.setdefault(tensor, []).append(number)

    def run(self) -> Casting:
        graph = self.graph
        for tensor in range(len(graph.tensors)):
            if tensor not in graph.producer:
                self._tensor(tensor, graph.source_type(tensor))
        for n, operator in enumerate(graph.operators):
            taken = [(graph.tensors[t].precision, self.taken[n, k]) for k, (_, t) in enumerate(operator.inputs)]
            for name, tensor in operator.outputs:
                self._tensor(tensor, made_type(graph, operator, name, tensor, taken))
        types = tuple(self.types[t] for t in range(len(graph.tensors)))
        return Casting(graph, types, tuple(self.casts), self.reads, self.results, self.exact)

    def _tensor(self, tensor: int, ty: TensorTy) -> None:
        """Tensor number *tensor* is made as *ty*: bring it to all who read it."""
        self.types[tensor] = ty
        wanted = self._wanted(tensor, ty)
        if not wanted:
            return
        source = State.of(ty)
        goals = dict.fromkeys(tuple(dict.fromkeys(map(State.of, types))) for types, _ in wanted)
        try:
            steps = self.rules.fewest(source, goals)
        except PartitionError as error:
            raise self._no_cast(tensor, source, wanted) from error
        self.exact = self.exact and self.rules.is_exact(g for g in goals if source not in g)
        made = self._append(tensor, source, steps, wanted)
        for types, reader in wanted:
            found = next(t for t in types if State.of(t) in made)
            cast = made[State.of(found)]
            if isinstance(reader, tuple):
                self.taken[reader] = found
                if cast is not None:
                    self.reads[reader] = cast
            elif cast is not None:
                self.results[reader] = cast

    def _wanted(self, tensor: int, given: TensorTy) -> list[tuple[tuple[TensorTy, ...], _Reader]]:
        """As what the tensor may be read, by each of its readers."""
        of = self.graph.tensors[tensor]
        found: list[tuple[tuple[TensorTy, ...], _Reader]] = []
        for n, k in self.graph.readers.get(tensor, ()):
            operator = self.graph.operators[n]
            name = operator.inputs[k][0]
            wanted = demand(_kernel_of(operator), name, of.precision, operator)
            if wanted.kind != of.kind:
                raise PartitionError(f"{operator} takes a {wanted.kind} as {name}, and {of.name} is a {of.kind}")
            found.append((settled(wanted, given, of.rank), (n, k)))
        for number in self.leaving.get(tensor, ()):
            found.append((settled(self.graph.results[number][1], given, of.rank), number))
        return found

    def _append(
        self,
        tensor: int,
        source: State,
        steps: Sequence[CastStep],
        wanted: Sequence[tuple[tuple[TensorTy, ...], _Reader]],
    ) -> dict[State, int | None]:
        """Add the casts of one tensor; the number of the cast that makes each state, None for the tensor's own."""
        of = self.graph.tensors[tensor]
        made: dict[State, int | None] = {source: None}
        inner = self._between(tensor, steps, wanted)
        for step in steps:
            if needs_scale(step) and of.scale is None:
                raise PartitionError(
                    f"{of.name} is cast {step.source} -> {step.destination} and has no scale; give the tensor one"
                )
            size = of.bytes_as(Precision(step.destination.precision))
            made[step.destination] = len(self.casts)
            self.casts.append(
                InsertedCast(
                    step.kind,
                    tensor,
                    step.source,
                    step.destination,
                    made[step.source],
                    of.constant,
                    size,
                    step.destination in inner,
                )
            )
        return made

    def _between(
        self, tensor: int, steps: Sequence[CastStep], wanted: Sequence[tuple[tuple[TensorTy, ...], _Reader]]
    ) -> set[State]:
        """The states that lie on a path from an operator to an operator."""
        if tensor not in self.graph.producer:
            return set()
        inner = {State.of(t) for types, reader in wanted if isinstance(reader, tuple) for t in types}
        for step in reversed(steps):
            if step.destination in inner:
                inner.add(step.source)
        return inner

    def _no_cast(
        self, tensor: int, source: State, wanted: Sequence[tuple[tuple[TensorTy, ...], _Reader]]
    ) -> PartitionError:
        operators, of = self.graph.operators, self.graph.tensors[tensor]
        producer = str(operators[self.graph.producer[tensor]]) if tensor in self.graph.producer else "the model's input"
        for types, reader in wanted:
            states = tuple(map(State.of, types))
            try:
                self.rules.fewest(source, [states])
            except PartitionError:
                to = str(operators[reader[0]]) if isinstance(reader, tuple) else "the model's result"
                return PartitionError(
                    f"there is no cast {source} -> {states[0]} for {of.name} between {producer} and {to}; "
                    "add a rule for one of its steps, or choose other places"
                )
        raise InternalError(f"{of.name} can be brought to each of its types, but not to all")


def made_type(
    graph: PlaceGraph, operator: Operator, name: str, tensor: int, taken: Sequence[tuple[Precision, TensorTy]]
) -> TensorTy:
    """The type of an output: as declared; ``any`` as the first float input was taken, else as the model has it."""
    kernel, of = _kernel_of(operator), graph.tensors[tensor]
    ty = _on_device(kernel.output_type(name), kernel, operator)
    model = next((t for p, t in taken if p in FLOATS), taken[0][1] if taken else graph.source_type(tensor))
    precision = ty.precision
    if of.precision not in FLOATS and name not in kernel.outputs:
        precision = of.precision
    elif precision == Precision.ANY:
        precision = model.precision if of.precision in FLOATS and model.precision in FLOATS else of.precision
    layout = model.layout if ty.layout == DataLayout.ANY else ty.layout
    target, device = (model.target, model.device) if ty.target == ANY else (ty.target, ty.device)
    return replace(ty, target=target, device=device, precision=precision, layout=layout, kind=of.kind)
