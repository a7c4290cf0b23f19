"""A region's launch and its transfers, from the seconds of small functions that get or give little and much."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from byoc import relay
from byoc.driver.costs.probes import MIDDLE, TINY
from byoc.ir.types import TensorType
from byoc.partition.costs.profile import Profile
from byoc.relay.expr import Function, Var

ITEM = 4
LEAST = 1e-9  # seconds that a difference counts at least


def with_borders(profile: Profile, seconds: Mapping[str, float]) -> Profile:
    """*profile* with its launch and its transfers from the seconds of regions."""
    size = math.prod(MIDDLE) * ITEM
    little = max(seconds["little"] - seconds["host"], LEAST)
    if math.isinf(profile.upload):  # it works in the host's own memory
        return replace(profile, launch=little)
    latency = min(max(seconds["two"] - seconds["little"], 0.0), little / 3)
    far = profile.kernel + size / profile.bandwidth(size)
    reading = size / max(seconds["much"] - seconds["little"] - far, size / 1e13)
    writing = size / max(seconds["given"] - seconds["little"] - far, size / 1e13)
    launch = max(little - 2 * latency - profile.kernel, 0.0)
    return replace(profile, launch=launch, latency=latency, upload=reading, download=writing)


def summed(shape: tuple[int, ...], inputs: int = 1) -> Function:
    """Inputs summed to one number each, and these added."""
    params = [Var(f"x{k}", TensorType(shape, "float32")) for k in range(inputs)]
    sums = [relay.sum(p, axis=0, keepdims=True) for p in params]
    return Function(params, sums[0] if inputs == 1 else relay.add(*sums))


def doubled(shape: tuple[int, ...], inputs: int = 1) -> Function:
    """Inputs added up, or one to itself."""
    params = [Var(f"x{k}", TensorType(shape, "float32")) for k in range(inputs)]
    return Function(params, relay.add(params[0], params[-1]))


def multiplied(shape: tuple[int, ...], inputs: int = 1) -> Function:
    """Rows of an input by a constant, or by another input."""
    rows = Var("x", TensorType((math.prod(shape) // TINY[0], TINY[0]), "float32"))
    row = TensorType((1, TINY[0]), "float32")
    others = [Var(f"x{k}", row) for k in range(1, inputs)]
    weight = others[0] if others else relay.const(np.ones(row.concrete_shape, "float32"))
    return Function([rows, *others], relay.nn.dense(rows, weight))


def spread() -> Function:
    """A few numbers repeated."""
    few = Var("x", TensorType(TINY, "float32"))
    return Function([few], relay.tile(few, (math.prod(MIDDLE) // TINY[0],)))
