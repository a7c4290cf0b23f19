"""The inputs of a graph as Relay's executors take them: converted in silence, kept from run to run, zeros until set.

This is the laxer of two temperaments. ``byoc.compile``'s library, a loaded artefact and the command line refuse an
array of another dtype (``byoc.runtime.graph.executor_base.as_input``); an executor that is reached through Relay's
names converts it here first. Source: ``GraphModule.set_input`` and ``NDArray.copyfrom`` of ``tvm`` v0.18.
"""

from __future__ import annotations

import numpy as np

from byoc.errors import InputError
from byoc.runtime.core.ndarray import NDArray, dtype_name, numpy_dtype
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.graph.executor_base import Executor, as_input


def relay_input(value: object, spec: TensorSpec) -> np.ndarray:
    """*value* in the dtype of *spec*: an NDArray's bytes are taken as they are, anything else is converted.

    Raises InputError for what is no array, for a text where numbers are wanted, for an NDArray of another size, and
    for another shape where that of *spec* is known.
    """
    wanted = numpy_dtype(spec.dtype)
    array = as_input(value, spec)
    if array.dtype != wanted and not wanted.hasobject:
        array = _bytes(array, spec) if isinstance(value, NDArray) else _converted(array, spec)
    if is_static(spec) and array.shape != spec.shape:
        raise InputError(f"input {spec.name!r}: expected shape {spec}, got {list(array.shape)}")
    return array


def is_static(spec: TensorSpec) -> bool:
    """Whether every size of the tensor is a number."""
    return all(isinstance(size, int) for size in spec.shape)


def _bytes(array: np.ndarray, spec: TensorSpec) -> np.ndarray:
    wanted = numpy_dtype(spec.dtype)
    if array.dtype.hasobject or array.dtype.itemsize != wanted.itemsize:
        raise InputError(
            f"input {spec.name!r}: the bytes of {dtype_name(array.dtype)}{list(array.shape)} are not as many as those "
            f"of {spec.dtype}; convert it with .numpy().astype({spec.dtype!r})"
        )
    return np.array(array, order="C").view(wanted)


def _converted(array: np.ndarray, spec: TensorSpec) -> np.ndarray:
    try:
        return array.astype(numpy_dtype(spec.dtype))
    except (TypeError, ValueError) as error:
        found = dtype_name(array.dtype)
        raise InputError(f"input {spec.name!r}: {found} cannot be converted to {spec.dtype} ({error})") from error


class GraphInputs:
    """The inputs of one executor: each an array that a run reads where it lies, and that a caller may write to."""

    def __init__(self, executor: Executor):
        graph = executor.graph
        self._executor = executor
        self.specs = [graph.specs[node.outputs[0]] for node in graph.inputs]
        self.names = [node.name for node in graph.inputs]
        self._own: dict[str, np.ndarray] = {}

    def place_of(self, key: str | int) -> int:
        """The position of the input *key*. Raises InputError for one that the graph lacks."""
        place = self.names.index(key) if key in self.names else key
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(self.names):
            known = ", ".join(self.names)
            raise InputError(f"Could not find {key!r} in graph's inputs: there is no input {key!r}, only {known}")
        return place

    def set(self, key: str | int, value: object) -> None:
        """Copy *value* into the input *key*. Raises InputError for what :func:`relay_input` refuses."""
        place = self.place_of(key)
        name, array = self.names[place], relay_input(value, self.specs[place])
        own = self._own.get(name)
        if own is not None and own.shape == array.shape and own.dtype == array.dtype:
            np.copyto(own, array)
            return
        self._own[name] = np.array(array, order="C")
        self._executor.set_input(name, self._own[name])

    def share(self, key: str | int, value: object) -> None:
        """Have *value* itself read when the graph runs."""
        name = self.names[self.place_of(key)]
        self._own.pop(name, None)
        self._executor.set_input(name, value)

    def get(self, key: str | int) -> NDArray:
        """The input *key* itself; zeros where it was not set, each size that is not known being one."""
        place = self.place_of(key)
        name, spec = self.names[place], self.specs[place]
        value = self._executor.input_values.get(name)
        if value is None:
            value = np.zeros([size if isinstance(size, int) else 1 for size in spec.shape], numpy_dtype(spec.dtype))
            if is_static(spec):
                self._own[name] = value
                self._executor.set_input(name, value)
        return NDArray(value)

    def fill(self) -> None:
        """Let inputs that were never set be zeros where their shapes are known."""
        for name, spec in zip(self.names, self.specs, strict=True):
            if name not in self._executor.input_values and is_static(spec):
                self.get(name)
