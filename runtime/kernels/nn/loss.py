"""Numpy kernels of losses."""

from __future__ import annotations

import numpy as np

from byoc.runtime.kernels.core.registry import kernel


@kernel("nn.cross_entropy")
def cross_entropy(predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """``-sum(targets * log(predictions)) / batch``."""
    with np.errstate(all="ignore"):
        return np.asarray(-np.sum(np.log(predictions) * targets) / len(predictions), predictions.dtype)


@kernel("nn.cross_entropy_with_logits")
def cross_entropy_with_logits(predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """``-sum(targets * predictions) / batch``."""
    return np.asarray(-np.sum(predictions * targets) / len(predictions), predictions.dtype)


@kernel("nn.nll_loss")
def nll_loss(
    predictions: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> np.ndarray:
    """The weighted negative score of each target's class; a target of *ignore_index* has none."""
    counted = targets != ignore_index
    places = np.where(counted, targets, 0).astype(np.int64)
    axis = 0 if predictions.ndim == 1 else 1
    scores = np.take_along_axis(predictions, np.expand_dims(places, axis), axis).squeeze(axis)
    weight = np.where(counted, weights[places], 0).astype(predictions.dtype)
    losses = np.where(counted, -scores * weights[places], 0).astype(predictions.dtype)
    if reduction == "none":
        return losses
    total = losses.sum()
    with np.errstate(all="ignore"):
        return np.asarray(total / weight.sum() if reduction == "mean" else total, predictions.dtype)
