"""Equations of Einstein sums, and their numpy kernel."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

import numpy as np

from byoc.runtime.core.errors import UserError
from byoc.runtime.kernels.core.registry import kernel


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """One letter per dimension for each input of the given *ranks*, and for the result; ``...`` gets letters too.

    Without an arrow the result has the dimensions of ``...``, then the letters that stand once, in their order. Raises
    UserError for an equation that does not fit the inputs.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise UserError(f"einsum: {equation!r} has {len(terms)} terms for {len(ranks)} inputs")
    free = [c for c in string.ascii_letters if c not in equation]
    spread = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    for term, rank, extra in zip(terms, ranks, spread, strict=True):
        if extra < 0 or (extra and "..." not in term):
            raise UserError(f"einsum: the term {term!r} does not fit an input of rank {rank}")
    shared = "".join(free[: max(spread, default=0)])
    inputs = [t.replace("...", shared[len(shared) - n :]) for t, n in zip(terms, spread, strict=True)]
    letters = "".join(inputs)
    single = sorted(c for c in set(letters) if letters.count(c) == 1 and c not in shared)
    output = right.replace("...", shared) if arrow else shared + "".join(single)
    if not all(c in string.ascii_letters for c in letters + output) or not set(output) <= set(letters):
        raise UserError(f"einsum: {equation!r} has something other than letters, or an output that no input has")
    if len(set(output)) != len(output):
        raise UserError(f"einsum: {equation!r} names a dimension of the result twice")
    return inputs, output


@kernel("einsum")
def einsum(data: list[np.ndarray], *, equation: str) -> np.ndarray:
    """The Einstein sum of several arrays."""
    inputs, output = parse_equation(equation, [a.ndim for a in data])
    if len(data) == 2 and _is_product(inputs, output):
        return _product(data[0], data[1], inputs, output).astype(data[0].dtype, copy=False)
    return np.asarray(np.einsum(f"{','.join(inputs)}->{output}", *data)).astype(data[0].dtype)


def _is_product(inputs: Sequence[str], output: str) -> bool:
    """True where two terms have no diagonals, and sum over nothing that only one of them has."""
    left, right = map(set, inputs)
    distinct = len(left) + len(right) == len(inputs[0]) + len(inputs[1])
    return distinct and left ^ right <= set(output)


def _product(left: np.ndarray, right: np.ndarray, inputs: Sequence[str], output: str) -> np.ndarray:
    """A matrix product for each element of the letters that both terms and the result have: numpy's is by BLAS."""
    batch = [c for c in output if c in inputs[0] and c in inputs[1]]
    rows, columns = ([c for c in output if c in term and c not in batch] for term in inputs)
    summed = [c for c in inputs[0] if c not in output]
    a = np.transpose(left, [inputs[0].index(c) for c in (*batch, *rows, *summed)])
    b = np.transpose(right, [inputs[1].index(c) for c in (*batch, *summed, *columns)])
    n, m = len(batch), len(rows)
    common = np.broadcast_shapes(a.shape[n + m :], b.shape[n : n + len(summed)])
    a = np.broadcast_to(a, (*a.shape[: n + m], *common))
    b = np.broadcast_to(b, (*b.shape[:n], *common, *b.shape[n + len(summed) :]))
    inner = math.prod(common)
    product = np.matmul(
        a.reshape(*a.shape[:n], math.prod(a.shape[n : n + m]), inner),
        b.reshape(*b.shape[:n], inner, math.prod(b.shape[n + len(summed) :])),
    )
    result = product.reshape((*product.shape[:n], *a.shape[n : n + m], *b.shape[n + len(summed) :]))
    order = [*batch, *rows, *columns]
    return np.transpose(result, [order.index(c) for c in output])


@kernel("reverse_sequence")
def reverse_sequence(
    data: np.ndarray, seq_lengths: np.ndarray, *, seq_axis: int = 1, batch_axis: int = 0
) -> np.ndarray:
    """Each sequence of a batch in reverse order up to its own length."""
    rows = np.moveaxis(data, (batch_axis, seq_axis), (0, 1))
    steps = np.arange(rows.shape[1])
    lengths = np.clip(seq_lengths.astype("int64"), 0, rows.shape[1])[:, None]
    order = np.where(steps < lengths, lengths - 1 - steps, steps)
    return np.moveaxis(rows[np.arange(rows.shape[0])[:, None], order], (0, 1), (batch_axis, seq_axis)).copy()
