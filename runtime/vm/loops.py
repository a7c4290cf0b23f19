"""Loops of the bytecode that native code can run: a function that makes one call and then calls itself.

Such a function begins with a decision on one of its parameters. Where it is to go on, it calls one function of the
library, puts outputs at the end of sequences (or in front), and calls itself with outputs and parameters. Its runs are
then one :class:`LoopCall` of the library, if that can; the machine enters the function behind the last of them, and
leaves it by the other side of the decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.graph.graph import LoopCall, LoopResult
from byoc.runtime.vm import instructions as i
from byoc.runtime.vm.library_calls import LibraryCalls
from byoc.runtime.vm.program import VMFunction
from byoc.runtime.vm.sequences import Stacked, extended
from byoc.runtime.vm.values import Value

MOST_REFUSED = 4  # in turn, after which a loop is not tried any more: its sizes change from run to run


@dataclass(frozen=True)
class Given:
    """A parameter of the function."""

    index: int


@dataclass(frozen=True)
class Literal:
    """A number of the machine's own."""

    value: int


@dataclass(frozen=True)
class FixedValue:
    """A constant of the program."""

    index: int


@dataclass(frozen=True)
class Made:
    """An output of the call."""

    index: int


@dataclass(frozen=True)
class Longer:
    """A parameter, which is a sequence, with an output at its end, or *before* its elements."""

    parameter: int
    output: int
    before: bool


Source = Given | Literal | FixedValue | Made | Longer


@dataclass(frozen=True)
class LoopBody:
    """A loop: the call of symbol *packed* with *inputs*, and the source of each parameter of the next turn.

    The parameter *decides* is a boolean: whether there is a turn.
    """

    decides: int
    packed: int
    inputs: tuple[Given | FixedValue, ...]
    next: tuple[Source, ...]

    @property
    def call(self) -> LoopCall:
        """The loop as the library knows it."""
        flag = self.next[self.decides]
        assert isinstance(flag, Made)
        carried = [
            (k, source.index)
            for k, given in enumerate(self.inputs)
            if isinstance(given, Given) and isinstance(source := self.next[given.index], Made)
        ]
        kept = dict.fromkeys(s.index for p, s in enumerate(self.next) if isinstance(s, Made) and p != self.decides)
        collected = dict.fromkeys(s.output for s in self.next if isinstance(s, Longer))
        return LoopCall(flag.index, tuple(carried), tuple(kept), tuple(collected))


def body_of(function: VMFunction, number: int, constants: Sequence[NDArray | None]) -> LoopBody | None:
    """The loop that *function*, which has that *number*, is; None where it is none, or another kind of one."""
    return _Reader(function, number, constants).read()


class _Reader:
    """Follows the side of the decision that goes on, and knows the source of each register."""

    def __init__(self, function: VMFunction, number: int, constants: Sequence[NDArray | None]):
        self._function, self._number, self._constants = function, number, constants
        self._known: dict[int, Source] = {r: Given(r) for r in range(len(function.params))}
        self._decides: int | None = None
        self._call: i.InvokePacked | None = None
        self._inputs: tuple[Given | FixedValue, ...] = ()

    def read(self) -> LoopBody | None:
        """The loop, or None."""
        if self._function.captured or self._function.own >= 0:
            return None
        place, code = 0, self._function.instructions
        while place < len(code):
            op = code[place]
            if isinstance(op, i.Invoke):
                return self._again(op, code[place + 1])
            step = self._step(op)
            if not step:
                return None
            place += step
        return None

    def _step(self, op: i.Instruction) -> int:
        """How many instructions further reading goes on; 0 for what such a loop does not hold."""
        if isinstance(op, (i.LoadConsti, i.LoadConst, i.Move)):
            self._known[op.dst] = self._moved(op)
            return 1
        if isinstance(op, i.Goto):
            return op.offset
        if isinstance(op, i.If):
            test, target = self._known.get(op.test), self._known.get(op.target)
            if self._decides is not None or self._call is not None or target != Literal(1) or type(test) is not Given:
                return 0
            self._decides = test.index
            return op.true_offset
        if isinstance(op, i.InvokePacked):
            inputs = tuple(source for r in op.args if isinstance(source := self._known.get(r), (Given, FixedValue)))
            if self._call is not None or self._decides is None or len(inputs) != len(op.args):
                return 0
            self._call, self._inputs = op, inputs
            self._known.update((r, Made(k)) for k, r in enumerate(op.outputs))
            return 1
        if isinstance(op, i.SequenceStep) and op.operation == "sequence.insert":
            return self._inserted(op)
        return 0

    def _moved(self, op: i.LoadConsti | i.LoadConst | i.Move) -> Source:
        if isinstance(op, i.LoadConsti):
            return Literal(op.value)
        return FixedValue(op.constant) if isinstance(op, i.LoadConst) else self._known[op.src]

    def _inserted(self, op: i.SequenceStep) -> int:
        sources = [self._known.get(r) for r in op.args]
        before = len(sources) == 3
        if before and not self._is_zero(sources[2]):
            return 0
        if not isinstance(sources[0], Given) or not isinstance(sources[1], Made):
            return 0
        self._known[op.dst] = Longer(sources[0].index, sources[1].index, before)
        return 1

    def _is_zero(self, source: Source | None) -> bool:
        value = self._constants[source.index] if isinstance(source, FixedValue) else None
        return value is not None and value.numpy().size == 1 and not value.numpy().item()

    def _again(self, op: i.Invoke, after: i.Instruction) -> LoopBody | None:
        """The loop, where *op* begins its next turn."""
        is_tail = isinstance(after, i.Ret) and after.result == op.dst
        if not is_tail or op.function != self._number or self._call is None or self._decides is None:
            return None
        found = tuple(source for r in op.args if (source := self._known.get(r)) is not None)
        if len(found) != len(op.args) or not all(_is_next(source, p) for p, source in enumerate(found)):
            return None
        if not isinstance(found[self._decides], Made):
            return None
        return LoopBody(self._decides, self._call.packed, self._inputs, found)


def _is_next(source: Source, parameter: int) -> bool:
    """Whether a parameter stays, becomes an output, or is its own sequence with one element more."""
    if isinstance(source, Longer):
        return source.parameter == parameter
    return isinstance(source, Made) or source == Given(parameter)


class Loops:
    """The loops among the functions of a program, by the function's identity."""

    def __init__(self, functions: Sequence[VMFunction], constants: Sequence[NDArray | None]):
        self._constants = constants
        found = ((f, body_of(f, number, constants)) for number, f in enumerate(functions))
        self._bodies = {id(f): body for f, body in found if body is not None}
        self._calls = {key: body.call for key, body in self._bodies.items()}
        self._refused = dict.fromkeys(self._bodies, 0)

    def __contains__(self, function: VMFunction) -> bool:
        return id(function) in self._bodies

    def advanced(self, function: VMFunction, args: Sequence[Value], calls: LibraryCalls) -> Sequence[Value]:
        """What the parameters of *function* are behind its last turn: *args* where native code cannot run it."""
        key = id(function)
        body = self._bodies[key]
        if self._refused[key] >= MOST_REFUSED or not _goes_on(args[body.decides]):
            return args
        inputs = [args[s.index] if isinstance(s, Given) else self._constants[s.index] for s in body.inputs]
        tensors = [value for value in inputs if isinstance(value, NDArray)]
        if len(tensors) != len(inputs):
            return args
        found = calls.loop(body.packed, self._calls[key], tensors)
        self._refused[key] = 0 if found is not None else self._refused[key] + 1
        return args if found is None else self._after(body, self._calls[key], args, found)

    def _after(self, body: LoopBody, call: LoopCall, args: Sequence[Value], found: LoopResult) -> list[Value]:
        kept = dict(zip(call.kept, map(NDArray, found.kept), strict=True))
        collected = dict(zip(call.collected, found.collected, strict=True))
        result: list[Value] = []
        for parameter, source in enumerate(body.next):
            if parameter == body.decides:
                result.append(0)
            elif isinstance(source, Made):
                result.append(kept[source.index])
            elif isinstance(source, Longer):
                result.append(extended(args[parameter], Stacked(collected[source.output]), source.before))
            else:
                result.append(args[parameter])
        return result


def _goes_on(value: Value) -> bool:
    return isinstance(value, NDArray) and value.numpy().size == 1 and bool(value.numpy().item())
