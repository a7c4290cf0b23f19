"""The numpy kernel of pairwise coupling."""

from __future__ import annotations

import numpy as np

from byoc.runtime.kernels.core.registry import kernel

TOLERANCE = 0.005  # through the number of classes: where the iteration ends, in libsvm and ONNX
ROUNDS = 100


@kernel("pairwise_coupling")
def pairwise_coupling(data: np.ndarray, *, classes: int = 2) -> np.ndarray:
    """data: T[N, pairs] -> T[N, classes], by the iteration of Wu, Lin and Weng's algorithm 2."""
    first, second = np.triu_indices(classes, 1)
    pairs = np.zeros((len(data), classes, classes))
    pairs[:, first, second], pairs[:, second, first] = data, 1 - data.astype(np.float64)
    system = -pairs * pairs.transpose(0, 2, 1)
    diagonal = np.arange(classes)
    system[:, diagonal, diagonal] = (pairs**2).sum(1)
    out = np.full((len(data), classes), 1 / classes)
    going = np.arange(len(data))
    for _ in range(max(ROUNDS, classes)):
        part, q = out[going], system[going]
        moved = np.einsum("nij,nj->ni", q, part)
        whole = (part * moved).sum(1)
        going_on = np.abs(moved - whole[:, None]).max(1, initial=0) >= TOLERANCE / classes
        going = going[going_on]
        if not going.size:
            break
        out[going] = _round(q[going_on], part[going_on], moved[going_on], whole[going_on])
    return out.astype(data.dtype)


def _round(system: np.ndarray, part: np.ndarray, moved: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """One probability after the other brought nearer."""
    for k in range(part.shape[1]):
        own = system[:, k, k]
        step = (whole - moved[:, k]) / own
        part[:, k] += step
        whole = (whole + step * (step * own + 2 * moved[:, k])) / (1 + step) ** 2
        moved = (moved + step[:, None] * system[:, k]) / (1 + step)[:, None]
        part /= (1 + step)[:, None]
    return part
