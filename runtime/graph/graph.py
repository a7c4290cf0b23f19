"""A graph in Relay's JSON layout; sequences at its borders, and graphs that are bodies of loops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.errors import InputError
from byoc.runtime.core.ndarray import from_any
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.graph.overlap import Overlap, OverlapStep, overlap

RESHAPE = "__nop"
T = TypeVar("T")
Entry = tuple[int, int]


@dataclass(frozen=True)
class Node:
    """A node of the graph; ``function`` is empty for an input.

    ``starts`` says that it can be started and waited for.
    """

    name: str
    function: str
    inputs: tuple[Entry, ...]
    outputs: tuple[Entry, ...]
    dynamic: bool = False
    starts: bool = False


class Graph:
    """A graph read from its JSON form: nodes, the spec of every entry, inputs and heads."""

    def __init__(self, data: Mapping[str, Any]):
        """Requires a graph that the compiler made, or one that passed :func:`checked_graph`."""
        rows: Sequence[int] = data["node_row_ptr"]
        attrs: Mapping[str, Sequence[Sequence[Any]]] = data["attrs"]
        shapes, dtypes = attrs["shape"][1], attrs["dltype"][1]
        self.nodes: list[Node] = []
        self.specs: dict[Entry, TensorSpec] = {}
        for index, raw in enumerate(data["nodes"]):
            outputs = tuple((index, k) for k in range(rows[index + 1] - rows[index]))
            for k, entry in enumerate(outputs):
                position = rows[index] + k
                self.specs[entry] = TensorSpec(raw["name"], tuple(shapes[position]), dtypes[position])
            info = raw.get("attrs", {})
            self.nodes.append(
                Node(
                    raw["name"],
                    info.get("func_name", ""),
                    tuple((nid, k) for nid, k, _ in raw["inputs"]),
                    outputs,
                    info.get("dynamic") == "1",
                    info.get("starts") == "1",
                )
            )
        self.inputs = [self.nodes[i] for i in data["arg_nodes"]]
        self.defaults: Mapping[str, np.ndarray] = {}  # of inputs that a call may leave out; they are the last ones
        self.fixed: Sequence[str] = ()  # inputs of the model that were compiled as constants
        self.heads: list[Entry] = [(nid, k) for nid, k, _ in data["heads"]]

    @functools.cached_property
    def kinds(self) -> list[TensorSpec]:
        """An entry for each shape and dtype of known rank and sizes that there is."""
        return list({(s.shape, s.dtype): s for s in self.specs.values() if None not in s.shape}.values())

    @functools.cached_property
    def has_fixed_sizes(self) -> bool:
        """Whether no size of a value of known rank differs from run to run."""
        return all(isinstance(d, int) for spec in self.kinds for d in spec.shape)

    def set_defaults(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Let calls leave out the inputs that *arrays* names, which have these values then.

        Raises InputError for a name that no input has, for an array that does not fit, and for an input that stands
        before one without a default.
        """
        specs = [self.specs[node.outputs[0]] for node in self.inputs]
        last = [spec.name for spec in specs[len(specs) - len(arrays) :]]
        if sorted(last) != sorted(arrays):
            raise InputError(f"defaults are for the last inputs, {', '.join(last)}, got {', '.join(arrays)}")
        for spec in specs:
            if spec.name in arrays:
                spec.bind(arrays[spec.name], Sizes())
        self.defaults = {spec.name: arrays[spec.name] for spec in specs if spec.name in arrays}

    def completed(self, inputs: Mapping[str, T]) -> Mapping[str, T | np.ndarray]:
        """*inputs* by name, with the defaults of those that are left out."""
        return {**self.defaults, **inputs} if self.defaults and isinstance(inputs, Mapping) else inputs

    @property
    def calls(self) -> list[Node]:
        """The nodes that call a function, in order."""
        return [node for node in self.nodes if node.function]

    def storage(self) -> dict[Entry, Entry]:
        """The entry whose memory each entry uses: its own, but for reshapes that of their input."""
        roots = {entry: entry for entry in self.specs}
        for node in self.calls:
            if node.function == RESHAPE:
                roots[node.outputs[0]] = roots[node.inputs[0]]
        return roots

    def overlap(self) -> Overlap:
        """What of the calls may be at work at the same time."""
        roots = self.storage()
        return overlap(
            [
                OverlapStep((), (), False)
                if node.function == RESHAPE
                else OverlapStep(
                    tuple(roots[e] for e in node.inputs),
                    tuple(roots[e] for e in node.outputs),
                    node.starts and not node.dynamic,
                )
                for node in self.calls
            ]
        )


# Sequences and optionals at the borders of a model, and graphs that are bodies of loops. A vector ``object[n]`` holds
# the n elements of a sequence, the one or none of an optional, or an output whose rank only the run knows.

SEQUENCE, OPTIONAL, ANY_RANK = "sequence", "optional", "any rank"


def forms_of(graph: Graph, owner: Callable[[str], object]) -> tuple[Sequence[str], Sequence[str]]:
    """For each input, and each output, whether it is a sequence, an optional or of any rank; () for tensors alone.

    *owner* gives the module of a function.
    """
    found = owner(graph.calls[0].function) if len(graph.calls) == 1 else None
    forms: tuple[Sequence[str], Sequence[str]] = getattr(found, "forms", ((), ()))
    return forms


def vectors(specs: Sequence[TensorSpec], forms: Sequence[str], values: Sequence[object]) -> list[object]:
    """*values* as a graph takes them. Raises InputError for what is no list of arrays, or neither None nor a value."""
    return [_vector(spec.name, f, v) if f else v for spec, f, v in zip(specs, forms, values, strict=True)]


def _vector(name: str, form: str, value: object) -> np.ndarray:
    from byoc.runtime.core.container import object_vector

    if form == OPTIONAL:
        return object_vector([] if value is None else [_element(name, value)])
    if not isinstance(value, (list, tuple)):
        raise InputError(f"input {name!r}: expected a list of arrays, got a {type(value).__name__}")
    return object_vector([_element(name, element) for element in value])


def _element(name: str, value: object) -> object:
    from byoc.runtime.core.strings import as_strings

    if isinstance(value, (list, tuple)):
        return [_element(name, element) for element in value]
    try:
        array = np.asarray(from_any(value))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"input {name!r}: an element that is a {type(value).__name__} and no array ({error})"
        ) from error
    if isinstance(value, (str, bytes)) or (array.dtype.hasobject and not hasattr(value, "dtype")):
        raise InputError(f"input {name!r}: a {type(value).__name__} among its elements is no array")
    return as_strings(name, array)


def given_back(forms: Sequence[str], values: Sequence[np.ndarray]) -> list[Any]:
    """*values* of a graph as a caller gets them."""
    return [_given_back(form, value) if form else value for form, value in zip(forms, values, strict=True)]


def _given_back(form: str, vector: np.ndarray) -> object:
    elements = list(vector)
    return elements if form == SEQUENCE else elements[0] if elements else None


class ModelPorts:
    """The inputs and the outputs of a model as its callers see them.

    ``inputs`` are first those that every call gives, then those with a default, which a call may leave out.
    """

    def __init__(self, graph: Graph, owner: Callable[[str], object], output_names: Sequence[str]):
        self._graph = graph
        self.inputs: tuple[TensorSpec, ...] = tuple(graph.specs[n.outputs[0]] for n in graph.inputs)
        self.outputs: tuple[TensorSpec, ...] = tuple(
            TensorSpec(name, graph.specs[head].shape, graph.specs[head].dtype)
            for name, head in zip(output_names, graph.heads, strict=True)
        )
        self._forms = forms_of(graph, owner)

    @property
    def input_defaults(self) -> Mapping[str, np.ndarray]:
        """The values of the inputs that a call may leave out, by name."""
        return self._graph.defaults

    def set_input_defaults(self, arrays: Mapping[str, np.ndarray]) -> None:
        """As :meth:`Graph.set_defaults`, of the model's graph."""
        self._graph.set_defaults(arrays)

    @property
    def fixed_inputs(self) -> Sequence[str]:
        """The inputs of the model that were compiled as constants."""
        return self._graph.fixed

    @property
    def has_forms(self) -> bool:
        """Whether executors take or give vectors in the place of some tensors."""
        return any(self._forms)

    def in_forms(self, inputs: Sequence[object]) -> Sequence[object]:
        """*inputs* in their order as executors take them."""
        return vectors(self.inputs, self._forms[0], inputs) if self.has_forms else inputs

    def all_of(self, inputs: Sequence[object]) -> Sequence[object]:
        """*inputs* in their order, with the defaults of those at the end that are left out.

        Raises InputError for too few or too many.
        """
        rest = [spec.name for spec in self.inputs[len(inputs) :]]
        if len(inputs) > len(self.inputs) or not all(name in self.input_defaults for name in rest):
            names = ", ".join(f"{s.name}{s}" for s in self.inputs)
            least = len(self.inputs) - len(self.input_defaults)
            count = f"{least} to {len(self.inputs)}" if self.input_defaults else f"{least}"
            raise InputError(f"the model takes {count} inputs ({names}), got {len(inputs)}")
        return [*inputs, *(self.input_defaults[name] for name in rest)] if rest else inputs


Kind = tuple[tuple[int, ...], np.dtype]  # the shape and the dtype of an array


@dataclass(frozen=True)
class LoopCall:
    """How runs of a graph follow each other; inputs and outputs by position.

    Attributes:
        going: the output, one boolean, that says whether there is another run.
        carried: pairs of an input and the output that it gets for the next run.
        kept: outputs of which the last run's value is wanted.
        collected: outputs of which every run's value is wanted, none of them twice.
    """

    going: int
    carried: tuple[tuple[int, int], ...]
    kept: tuple[int, ...]
    collected: tuple[int, ...]


@dataclass(frozen=True)
class LoopResult:
    """What the runs of a loop gave, in new arrays.

    Attributes:
        kept: the last run's outputs, in the order of the call.
        collected: for each collected output the values of all runs, along a new first axis.
    """

    kept: Sequence[np.ndarray]
    collected: Sequence[np.ndarray]
