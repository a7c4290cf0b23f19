"""Relay's passes to block-sparse products: their names, which say that byoc computes with dense weights only.

Source: ``relay.transform.DenseToSparse``, ``Conv2dToSparse``, ``Conv2dToSparse2``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from byoc.errors import UserError


def _refuse(name: str) -> NoReturn:
    raise UserError(f"{name}: byoc has no block-sparse products; leave this pass out, the dense weights give the same")


def DenseToSparse(weight_name: Sequence[str], weight_shape: Sequence[Sequence[int]]) -> NoReturn:
    """Raises UserError: there are no sparse products here."""
    _refuse("DenseToSparse")


def Conv2dToSparse(
    weight_name: Sequence[str], weight_shape: Sequence[Sequence[int]], layout: str, kernel_size: int
) -> NoReturn:
    """Raises UserError: there are no sparse products here."""
    _refuse("Conv2dToSparse")


def Conv2dToSparse2(layout: str, kernel_size: int, blocksize: Sequence[int], sparsity_threshold: float) -> NoReturn:
    """Raises UserError: there are no sparse products here."""
    _refuse("Conv2dToSparse2")
