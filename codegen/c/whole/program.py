"""The whole model as steps over buffers: the host's graph with the groups of its functions called in place.

A reshape that moves nothing is another name for a buffer; the temporaries of all functions and the values between
them share one arena; what is not generated code is called through a table of externals. Steps of programs over one item
of a batch (``Program.batch``) come last: a loop over the items does them all for one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from byoc.codegen.c.whole.unit import GroupCall
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.program import Program, holds_batch
from byoc.errors import InternalError
from byoc.ir.types import dtype_bytes
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.dso.whole_program import ExternalCall
from byoc.runtime.graph.graph import RESHAPE, Entry, Graph, Node
from byoc.runtime.graph.memory_plan import Lifetime, plan_memory
from byoc.te import Dimension, PrimExpr, Size, Tensor
from byoc.te.expr import Reduce
from byoc.te.walk import unique_nodes

INPUT, CONSTANT, OUTPUT, ARENA = "input", "constant", "output", "arena"


@dataclass(frozen=True, eq=False)
class ProgramBuffer:
    """Memory of one value: an argument of the program (by its position among those of its kind) or in the arena.

    One that is *of_item* holds one item of a batch; an argument holds all of them, one behind the other.
    """

    name: str
    dtype: str
    shape: tuple[Dimension, ...]
    kind: str = ARENA
    position: int = 0
    of_item: bool = False

    @property
    def static_bytes(self) -> int | None:
        """Its bytes; None where a size is known only at run time."""
        sizes = [d for d in self.shape if isinstance(d, int)]
        return math.prod(sizes) * dtype_bytes(self.dtype) if len(sizes) == len(self.shape) else None


@dataclass(frozen=True)
class CallStep:
    """A call of a group's function on *buffers*, in the order of its parameters."""

    call: GroupCall
    buffers: tuple[ProgramBuffer, ...]


@dataclass(frozen=True)
class ExternalStep:
    """A call of the external function at *position* in the table, on its inputs and then its outputs.

    One that is started is waited for by another step on the same buffers, which are in use until then.
    """

    position: int
    buffers: tuple[ProgramBuffer, ...]


@dataclass(frozen=True)
class CopyStep:
    """The last buffer gets what the first holds: an output that is an input, or another output."""

    buffers: tuple[ProgramBuffer, ProgramBuffer]


ProgramStep = CallStep | ExternalStep | CopyStep


@dataclass
class WholePlan:
    """The program *symbol*: its arguments, its steps, and the externals that these call.

    With a *batch*, a number or a Size, :attr:`item_steps` are done for one item of so many after the other.
    """

    symbol: str
    sizes: tuple[str, ...]
    batch: Dimension | None = None
    inputs: list[ProgramBuffer] = field(default_factory=list)
    constants: list[tuple[str, int]] = field(default_factory=list)
    outputs: list[ProgramBuffer] = field(default_factory=list)
    steps: list[ProgramStep] = field(default_factory=list)
    externals: list[ExternalCall] = field(default_factory=list)

    @property
    def buffers(self) -> list[ProgramBuffer]:
        """Every buffer that a step uses, in the order of first use."""
        return list(dict.fromkeys(b for step in self.steps for b in step.buffers))

    @property
    def item_steps(self) -> list[ProgramStep]:
        """The steps of one item, which are the last ones."""
        return [step for step in self.steps if _is_of_item(step)]

    def lifetimes(self, apart: bool = False) -> dict[ProgramBuffer, tuple[int, int]]:
        """The first and the last step that needs each buffer of the arena: all of them, where each lies *apart*.

        What the steps of an item read, and do not make, is needed for all items.
        """
        end = max(len(self.steps) - 1, 0)
        lives: dict[ProgramBuffer, tuple[int, int]] = {}
        for number, step in enumerate(self.steps):
            for buffer in step.buffers:
                if buffer.kind == ARENA:
                    last = end if _is_of_item(step) and not buffer.of_item else number
                    lives[buffer] = (lives.get(buffer, (number, number))[0], last)
        return dict.fromkeys(lives, (0, end)) if apart else lives

    def arena(self, guard: int = 0) -> tuple[dict[ProgramBuffer, int], int]:
        """The offset of each buffer of the arena, and the arena's bytes.

        With *guard* bytes around each, none shares its place with another. Raises InternalError for a size that is
        known only at run time.
        """
        lives = self.lifetimes(apart=bool(guard))
        sized = []
        for buffer, life in lives.items():
            size = buffer.static_bytes
            if size is None:
                raise InternalError(f"{self.symbol}: the arena is planned before the size of {buffer.name} is known")
            sized.append(Lifetime(size + 2 * guard, *life))
        memory = plan_memory(sized)
        return {b: offset + guard for b, offset in zip(lives, memory.offsets, strict=True)}, memory.total

    def checks(self) -> tuple[str, ...]:
        """The names of the checks of indices that the steps make."""
        calls = (step.call for step in self.steps if isinstance(step, CallStep))
        return tuple(dict.fromkeys(check for call in calls for check in call.checks))

    def derive_sizes(self) -> None:
        """Have ``sizes`` name also those that follow from the inputs' and that a step or a buffer needs."""
        dims = [d for b in (*self.buffers, *self.outputs) for d in b.shape if isinstance(d, PrimExpr)]
        used = [n.name for d in dims for n in unique_nodes(d) if isinstance(n, Size)]
        used += [name for step in self.steps if isinstance(step, CallStep) for name in step.call.sizes]
        self.sizes = tuple(dict.fromkeys([*self.sizes, *used]))

    def operations(self) -> int:
        """An estimate of the arithmetic of one run, or of one item of it."""
        stages = (s for step in self.steps if isinstance(step, CallStep) for s in step.call.stages)
        return sum(operations_of(stage) for stage in stages)


def _is_of_item(step: ProgramStep) -> bool:
    return any(buffer.of_item for buffer in step.buffers)


def no_whole_program(graph: Graph) -> str | None:
    """Why *graph* cannot be one function: a sentence, or None when it can."""
    for node in graph.calls:
        if node.dynamic:
            return f"the shapes of {node.name} are known only after it ran"
    for spec in graph.specs.values():
        if None in spec.shape:
            return f"{spec.name} has a dimension of unknown size"
        if spec.dtype == "string":
            return f"{spec.name} holds strings, which have no place in an arena"
    return None


def plan_whole_program(
    symbol: str, graph: Graph, programs: Mapping[str, Program], calls: Mapping[str, Sequence[GroupCall]]
) -> WholePlan:
    """The steps of *graph*; functions that *programs* lacks are externals. Requires that it can be one function."""
    return _Planning(symbol, graph, programs, calls).run()


class _Planning:
    def __init__(
        self, symbol: str, graph: Graph, programs: Mapping[str, Program], calls: Mapping[str, Sequence[GroupCall]]
    ):
        self.graph, self.programs, self.calls = graph, programs, calls
        specs = [graph.specs[n.outputs[0]] for n in graph.inputs]
        sizes = tuple(dict.fromkeys(d for s in specs for d in s.shape if isinstance(d, str)))
        self.plan = WholePlan(symbol, sizes, next((p.batch for p in programs.values() if p.batch is not None), None))
        self.roots = {e: e for e in graph.specs}
        self.values: dict[Entry, ProgramBuffer] = {}
        self.started: dict[int, int] = {}  # the step that starts each call that is started

    def run(self) -> WholePlan:
        for node in self.graph.calls:
            if node.function == RESHAPE:
                self.roots[node.outputs[0]] = self.roots[node.inputs[0]]
        for k, node in enumerate(self.graph.inputs):
            self.values[node.outputs[0]] = self._buffer(self.graph.specs[node.outputs[0]], node.name, INPUT, k)
            self.plan.inputs.append(self.values[node.outputs[0]])
        copies = self._place_outputs()
        order = self.graph.overlap()
        for k, node in enumerate(self.graph.calls):
            self._wait(order.waits[k])
            if node.function in self.programs:
                self._call(node)
            elif node.function != RESHAPE:
                self._external(node, k, order.is_started(k))
        self._wait(order.waits[-1])
        self.plan.derive_sizes()
        self.plan.steps += [CopyStep((self.values[root], target)) for root, target in copies]
        self.plan.steps.sort(key=_is_of_item)  # none of which another step waits for
        return self.plan

    def _place_outputs(self) -> list[tuple[Entry, ProgramBuffer]]:
        """The outputs that a step fills itself get their buffers; the others are copied at the end."""
        copies: list[tuple[Entry, ProgramBuffer]] = []
        for k, head in enumerate(self.graph.heads):
            root = self.roots[head]
            buffer = self._buffer(self.graph.specs[head], self._name(root), OUTPUT, k)
            self.plan.outputs.append(buffer)
            if root in self.values:
                copies.append((root, buffer))
            else:
                self.values[root] = buffer
        return copies

    def _call(self, node: Node) -> None:
        program, calls = self.programs[node.function], self.calls[node.function]
        places = dict(zip(program.inputs, map(self._value, node.inputs), strict=True))
        places.update(zip(program.outputs, map(self._value, node.outputs), strict=True))
        positions = {t: k for k, (t, _) in enumerate(program.constants)}
        for call in calls:
            for tensor in (*call.sources, *call.stages):
                if tensor not in places:
                    places[tensor] = self._own(node, tensor, positions.get(tensor), program.batch is not None)
            self.plan.steps.append(CallStep(call, tuple(places[t] for t in (*call.sources, *call.stages))))

    def _own(self, node: Node, tensor: Tensor, position: int | None, of_item: bool) -> ProgramBuffer:
        """The buffer of a constant of a function, or of a temporary."""
        name = f"{self._name(node.outputs[0])}_{tensor.name}"
        if position is None:
            return ProgramBuffer(name, tensor.dtype, tensor.shape, of_item=of_item)
        self.plan.constants.append((node.function, position))
        return ProgramBuffer(name, tensor.dtype, tensor.shape, CONSTANT, len(self.plan.constants) - 1)

    def _external(self, node: Node, number: int, starts: bool) -> None:
        inputs, outputs = (tuple(self.graph.specs[e] for e in es) for es in (node.inputs, node.outputs))
        buffers = tuple(self._value(e) for e in (*node.inputs, *node.outputs))
        if starts:
            self.started[number] = len(self.plan.steps)
        self.plan.steps.append(ExternalStep(len(self.plan.externals), buffers))
        self.plan.externals.append(ExternalCall(node.function, node.name, inputs, outputs, starts))

    def _wait(self, numbers: Sequence[int]) -> None:
        """Wait for calls that were started: until then their buffers are in use."""
        for number in numbers:
            start = self.plan.steps[self.started[number]]
            assert isinstance(start, ExternalStep)
            call = self.plan.externals[start.position]
            self.plan.steps.append(ExternalStep(len(self.plan.externals), start.buffers))
            self.plan.externals.append(replace(call, starts=False, waits_for=start.position))

    def _value(self, entry: Entry) -> ProgramBuffer:
        """The buffer of a value of the graph."""
        root = self.roots[entry]
        if root not in self.values:
            self.values[root] = self._buffer(self.graph.specs[root], self._name(root), ARENA, 0)
        return self.values[root]

    def _name(self, entry: Entry) -> str:
        """The ONNX node that computes *entry*, where it is known."""
        node = self.graph.nodes[entry[0]]
        origins = [name for call in self.calls.get(node.function, ()) for name in call.origin]
        return origins[-1] if origins else node.name

    def _buffer(self, spec: TensorSpec, name: str, kind: str, position: int) -> ProgramBuffer:
        shape = tuple(d if isinstance(d, int) else Size(str(d)) for d in spec.shape)
        of_item = self.plan.batch is not None and holds_batch(shape, self.plan.batch)
        return ProgramBuffer(name, spec.dtype, (1, *shape[1:]) if of_item else shape, kind, position, of_item)


def operations_of(stage: Tensor) -> int:
    """An estimate of the arithmetic of a stage: the terms of its sums, or its elements, as of what a routine fills."""
    if stage.body is None:
        return estimated_size(stage.shape)
    points = [estimated_size([a.extent for a in n.axes]) for n in unique_nodes(stage.body) if isinstance(n, Reduce)]
    return estimated_size(stage.shape) * max(sum(points), 1)
