"""The executor of a model that is one function with control flow: its inputs are looked at, then that function runs.

Nothing stands around such a function, so that there is no memory to plan and nothing to copy but its outputs, which may
be constants or what the next run writes to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.errors import InternalError, OutOfMemoryError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.graph.executor_base import ComputingExecutor, as_input, check_sizes, too_little
from byoc.runtime.graph.graph import Graph, Kind


class ControlExecutor(ComputingExecutor):
    """Runs a *graph* of one call, whose outputs *function* returns for its inputs; not for two threads at once."""

    def __init__(self, graph: Graph, function: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]):
        super().__init__(graph)
        self._function = function
        self._heads = [graph.specs[head] for head in graph.heads]
        self._of_strings = any(numpy_dtype(spec.dtype).hasobject for spec in self._specs)
        self._kinds: list[Kind] | None = None  # of the inputs of the last run
        self._planned: list[tuple[int, ...] | None] = []  # the shapes of outputs, as far as the inputs determine them

    @staticmethod
    def fits(graph: Graph, symbol: str) -> bool:
        """Whether *graph* is a call of *symbol* with all its inputs in their order, and gives all that it gives."""
        inputs = tuple(node.outputs[0] for node in graph.inputs)
        calls = [(node.function, node.inputs, node.outputs) for node in graph.calls]
        return calls == [(symbol, inputs, tuple(graph.heads))]

    def compute(self, inputs: Sequence[object]) -> list[np.ndarray]:
        """The outputs, in new arrays, for all inputs in their order. Raises InputError for one that does not fit."""
        arrays = self._checked(inputs)
        try:
            results = self._function(arrays)
        except OutOfMemoryError:
            raise
        except MemoryError as error:
            raise too_little(self.graph.calls[0], error) from error
        for result, shape in zip(results, self._planned, strict=True):
            if shape is not None and result.shape != shape:
                raise InternalError(f"{self.graph.calls[0].name}: planned {shape}, computed {result.shape}")
        return [result.copy() for result in results]

    def _checked(self, inputs: Sequence[object]) -> Sequence[np.ndarray]:
        """*inputs* as arrays, and what they determine. Raises InputError, UserError."""
        ready = [value for value in inputs if type(value) is np.ndarray]
        if [(value.shape, value.dtype) for value in ready] == self._kinds:
            return ready
        self._kinds = None  # until all is known to fit
        arrays = [as_input(value, spec) for value, spec in zip(inputs, self._specs, strict=True)]
        sizes = Sizes()
        for array, spec in zip(arrays, self._specs, strict=True):
            spec.bind(array, sizes)
        check_sizes(self.graph, sizes)
        self._planned = [None if None in spec.shape else spec.concrete_shape(sizes) for spec in self._heads]
        if not self._of_strings:  # each of which is looked at
            self._kinds = [(array.shape, array.dtype) for array in arrays]
        return arrays
