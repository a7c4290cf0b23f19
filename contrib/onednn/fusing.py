"""Which steps of a program run behind another in one primitive: a product's bias, sum and functions (post-ops).

A chain begins with a product or an operation of two tensors and goes on as long as each value is read once, by what can
stand behind. It is computed where its last step stands, since only there all that it reads is known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from byoc.contrib.onednn.algorithms import BINARY, COMMUTATIVE, ELTWISE
from byoc.contrib.onednn.steps import PRODUCTS
from byoc.contrib.region_program import RegionProgram

Declared = Mapping[str, Any]


@dataclass(frozen=True)
class Post:
    """A step behind another: its operator and attributes, and the number of the other tensor that it reads."""

    operator: str
    attributes: Declared
    operand: int | None = None


@dataclass(frozen=True)
class Chain:
    """A step with what runs behind it; ``results`` are the numbers of the values that it gives."""

    step: Declared
    posts: tuple[Post, ...]
    results: tuple[int, ...]

    @property
    def reads(self) -> tuple[int, ...]:
        """The numbers of the values that it reads."""
        return (*self.step["arguments"], *(p.operand for p in self.posts if p.operand is not None))


def chains_of(program: RegionProgram) -> list[Chain]:
    """The steps of *program* in the order in which they run, those behind others with them."""
    count = int(program["inputs"]) + len(program["constants"])
    steps: list[tuple[Declared, tuple[int, ...]]] = []
    for step in program["steps"]:
        results = tuple(range(count, count + len(step["results"])))
        steps.append((step, results))
        count += len(results)
    reads = Counter(k for step, _ in steps for k in step["arguments"]) + Counter(program["outputs"])
    chains: dict[int, Chain] = {}  # by the number of the value that they end with
    for step, results in steps:
        made = _continued(step, results, chains, reads)
        for number in results:
            chains[number] = made
    return list({id(chain): chain for chain in chains.values()}.values())


def _continued(step: Declared, results: tuple[int, ...], chains: dict[int, Chain], reads: Counter[int]) -> Chain:
    """The chain that *step* ends, which is taken out of *chains* where it began there."""
    for number in step["arguments"]:
        before = chains.get(number)
        if before is None or reads[number] != 1 or before.step["operator"] not in (*PRODUCTS, *BINARY):
            continue
        post = _post(step, number, before)
        if post is not None:
            del chains[number]
            return Chain(before.step, (*before.posts, post), results)
    return Chain(step, (), results)


def _post(step: Declared, number: int, before: Chain) -> Post | None:
    """*step* as what stands behind *before*, whose value is *number*; None where it cannot."""
    operator, attributes = step["operator"], step["attributes"]
    result, shape = step["results"][0], before.step["results"][0]["shape"]
    if result["shape"] != shape or result["dtype"] != before.step["results"][0]["dtype"]:
        return None
    if operator in ELTWISE:
        return Post(operator, attributes)
    if before.step["operator"] not in PRODUCTS or (operator not in BINARY and operator != "nn.bias_add"):
        return None
    left, right = step["arguments"]
    if left == number != right:
        return Post(operator, attributes, right)
    return Post(operator, attributes, left) if BINARY.get(operator) in COMMUTATIVE and left != right else None


def sizes_along(shape: Sequence[int], ndim: int) -> tuple[int, ...]:
    """*shape* as it broadcasts with a tensor of *ndim* axes."""
    return (1,) * (ndim - len(shape)) + tuple(shape)


def is_along(shape: Sequence[int], axis: int) -> bool:
    """Whether a tensor has one number for each place along *axis*, or one for all."""
    return math.prod(shape) == shape[axis]
