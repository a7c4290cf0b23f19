"""Running a small graph whose operators have kernels with functions: the casts are executed, those of constants once.

The reference meaning of a :class:`Casting`: what the casts do to numpy arrays. Buffers of layouts are arrays with their
axes in that order; images and the memories of devices are arrays like others, for only their bytes move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from byoc.errors import PartitionError
from byoc.partition.place import FLOATS, IMAGES, DataLayout, Precision, dtype_of
from byoc.partition.places.graph import PlacedTensor
from byoc.partition.places.infer import Casting, InsertedCast
from byoc.runtime.core.ndarray import numpy_dtype

Convert = Callable[[np.ndarray, InsertedCast, PlacedTensor], np.ndarray]


class CastProgram:
    """A casting with the values of its constants, which are cast when this is made.

    *converted* counts the casts that were done, of constants and in all runs.
    """

    def __init__(self, casting: Casting, constants: Mapping[int, np.ndarray], convert: Convert | None = None):
        self._casting, self._convert = casting, convert or convert_array
        self.converted = 0
        self._constants = dict(constants)
        self._once: dict[int, np.ndarray] = {}
        for number, cast in enumerate(casting.casts):
            if cast.once:
                self._once[number] = self._cast(cast, self._constants, self._once)

    def run(self, inputs: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """The results for the values of the graph's inputs, by tensor number. Raises PartitionError without kernels."""
        graph, casting = self._casting.graph, self._casting
        values, made = {**self._constants, **inputs}, dict(self._once)
        for n, operator in enumerate(graph.operators):
            kernel = operator.kernel
            if kernel is None or kernel.run is None:
                raise PartitionError(f"the kernel of {operator} has no function; register one that can be run")
            args = [
                self._value(tensor, casting.reads.get((n, k)), values, made)
                for k, (_, tensor) in enumerate(operator.inputs)
            ]
            outputs = kernel.run(*args)
            fields: Sequence[np.ndarray] = outputs if isinstance(outputs, (tuple, list)) else [outputs]  # type: ignore
            values.update(zip((t for _, t in operator.outputs), fields, strict=True))
        return [
            self._value(tensor, casting.results.get(k), values, made) for k, (tensor, _) in enumerate(graph.results)
        ]

    def _value(
        self, tensor: int, cast: int | None, values: Mapping[int, np.ndarray], made: dict[int, np.ndarray]
    ) -> np.ndarray:
        chain = []
        while cast is not None and cast not in made:
            chain.append(cast)
            cast = self._casting.casts[cast].reads
        for number in reversed(chain):
            made[number] = self._cast(self._casting.casts[number], values, made)
        last = chain[0] if chain else cast
        return values[tensor] if last is None else made[last]

    def _cast(self, cast: InsertedCast, values: Mapping[int, np.ndarray], made: Mapping[int, np.ndarray]) -> np.ndarray:
        self.converted += 1
        source = values[cast.tensor] if cast.reads is None else made[cast.reads]
        return self._convert(source, cast, self._casting.graph.tensors[cast.tensor])


def convert_array(array: np.ndarray, cast: InsertedCast, tensor: PlacedTensor) -> np.ndarray:
    """What one cast makes of an array: a copy, other numbers, or its axes in another order."""
    if cast.kind == "target":
        return array.copy()
    if cast.kind == "precision":
        return _in_precision(array, Precision(cast.source.precision), Precision(cast.destination.precision), tensor)
    source, destination = DataLayout(cast.source.layout), DataLayout(cast.destination.layout)
    return _laid(_plain(array, source), destination)


def _in_precision(array: np.ndarray, source: Precision, destination: Precision, tensor: PlacedTensor) -> np.ndarray:
    dtype = numpy_dtype(dtype_of(destination))
    narrow = (Precision.INT8, Precision.UINT8)
    if source in FLOATS and destination in narrow and tensor.scale is not None:
        limits = np.iinfo(dtype)
        return np.clip(np.rint(array / tensor.scale), limits.min, limits.max).astype(dtype)
    if source in narrow and destination in FLOATS and tensor.scale is not None:
        return (array.astype("float32") * np.float32(tensor.scale)).astype(dtype)
    return array.astype(dtype)


def _block(layout: DataLayout) -> int | None:
    """The channels that lie innermost in a blocked layout."""
    digits = "".join(c for c in str(layout) if c.isdigit())
    return int(digits) if digits else None


def _plain(array: np.ndarray, layout: DataLayout) -> np.ndarray:
    """*array*, which lies in *layout*, with its axes N, C, H, W; of another rank as it is."""
    block = _block(layout)
    if block is not None and array.ndim == 5:
        n, c, h, w, _ = array.shape
        return array.transpose(0, 1, 4, 2, 3).reshape(n, c * block, h, w)
    if layout == DataLayout.NHWC and array.ndim == 4:
        return array.transpose(0, 3, 1, 2)
    return array


def _laid(array: np.ndarray, layout: DataLayout) -> np.ndarray:
    """*array* with the axes N, C, H, W in *layout*; of another rank as it is."""
    block = _block(layout)
    if layout in IMAGES or array.ndim != 4:
        return array
    if block is not None:
        n, c, h, w = array.shape
        if c % block:
            raise PartitionError(f"{c} channels are no multiple of the {block} of layout {layout}")
        return np.asarray(array.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2), order="C")
    return np.asarray(array.transpose(0, 2, 3, 1), order="C") if layout == DataLayout.NHWC else array
