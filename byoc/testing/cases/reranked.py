"""The samples of an operator on tensors of another rank: for a backend that takes none of the samples' own.

A chip whose tensors all have four dimensions refuses every sample of a sum or a softmax, which have two or three. What
it takes is the sample with dimensions before its own, or with its first ones merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from byoc.ir.op import Op, Sample

RANKS = (4, 2, 3, 1, 5)  # in the order in which they are tried: images, matrices, sequences
BEFORE = 2  # the first of the dimensions that are put before the sample's own
AXES = ("axis", "axes")


def in_ranks(op: Op, sample: Sample, inputs: Sequence[object]) -> Iterator[tuple[int, Sample]]:
    """*sample* on *inputs* of each other rank, with that rank.

    Tensors of as many dimensions as the first one, or the first one of a tuple, change, others stay.
    """
    first = next((a for item in inputs for a in (item if isinstance(item, list) else [item])), None)
    if not isinstance(first, np.ndarray) or not first.ndim:
        return
    for rank in RANKS:
        if rank != first.ndim:
            changed = [
                [_of_rank(a, first.ndim, rank) for a in item]
                if isinstance(item, list)
                else _of_rank(np.asarray(item), first.ndim, rank)
                for item in inputs
            ]
            attrs = {n: _moved(v, rank - first.ndim) if n in AXES else v for n, v in _attributes(op, sample).items()}
            yield rank, replace(sample, inputs=changed, attrs=attrs)


def _attributes(op: Op, sample: Sample) -> dict[str, object]:
    """The attributes of a sample; of axes also those that it leaves as they are without being said."""
    made = op.attrs_type(**sample.attrs) if op.attrs_type else None
    unsaid = {n: getattr(made, n) for n in AXES if n not in sample.attrs and hasattr(made, n)}
    return {**unsaid, **sample.attrs}


def _of_rank(array: np.ndarray, own: int, rank: int) -> np.ndarray:
    """*array* in *rank* dimensions where it has *own*: repeated along a new first one, or the first ones merged."""
    if array.ndim != own:
        return array
    if rank < own:
        return array.reshape(-1, *array.shape[own - rank + 1 :])
    return np.stack([array] * BEFORE).reshape(BEFORE, *([1] * (rank - own - 1)), *array.shape)


def _moved(axis: object, by: int) -> object:
    """The axes, counted from the first dimension, where *by* dimensions stand before those that there were."""
    if isinstance(axis, (tuple, list)):
        return tuple(_moved(a, by) for a in axis)
    return max(axis + by, 0) if isinstance(axis, int) and not isinstance(axis, bool) and axis >= 0 else axis
