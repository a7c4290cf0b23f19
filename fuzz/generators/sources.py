"""The sources of models by name; ``case_of("wide", 7)`` is always the same case."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from fuzz.case import Case
from fuzz.generators import control, moves, nodes, others, pointwise, quantized, recurrent
from fuzz.generators.draft import INTEGERS, ORDINARY, Draft, Freedom, Proposal, RandomModel, finish, grow, random_model
from fuzz.generators.nnsmith_source import nnsmith
from fuzz.judge.oracle import NotApplicable

WIDE_FLOATS = ("float16", "float32", "float64", "bfloat16")
WIDE_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
WIDE = Freedom(
    floats=WIDE_FLOATS,
    integers=WIDE_INTEGERS,
    most_rank=8,
    empty=True,
    special=0.2,
    nodes=(1, 6),
    opsets=(13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23),
)
EVERY: Sequence[Proposal] = (
    *nodes.PROPOSALS,
    *pointwise.PROPOSALS,
    *others.PROPOSALS,
    *others.PROPOSALS,
    *control.PROPOSALS,
    *quantized.PROPOSALS,
)
assert moves.PROPOSALS is nodes.PROPOSALS  # imported for what it registers
QUANTIZED = Freedom(integers=(*INTEGERS, "int8", "uint8"), nodes=(2, 7), opsets=(13, 17, 19, 21))
Source = Callable[[int], Case]


def ordinary(seed: int) -> Case:
    """float32 and its kin, images and matrices, up to 25 nodes: what exporters write."""
    return as_case("ordinary", seed, random_model(seed, nodes.PROPOSALS))


def small(seed: int) -> Case:
    """As *ordinary*, with few nodes: more kinds of them in the same time."""
    draft = start(seed, replace(ORDINARY, nodes=(1, 5)), (4, 4, 3, 2, 5, 1, 0), ("float32",) * 9 + ("float64", "int64"))
    return as_case("small", seed, finish(grow(draft, nodes.PROPOSALS)))


def wide(seed: int) -> Case:
    """Every element type, ranks 0 to 8, empty dimensions, NaN, infinities, denormals, many opsets."""
    draft = start(seed, WIDE, range(9), (*WIDE_FLOATS, *WIDE_INTEGERS, "bool", "float32", "float32"))
    return as_case("wide", seed, finish(grow(draft, EVERY)))


def quantized_(seed: int) -> Case:
    """Quantized operators among ordinary ones."""
    draft = start(seed, QUANTIZED, (4, 4, 2, 3), ("float32", "float32", "uint8", "int8"))
    return as_case("quantized", seed, finish(grow(draft, (*quantized.PROPOSALS * 4, *nodes.PROPOSALS))))


def recurrent_(seed: int) -> Case:
    """A recurrence or two, and what stands around them."""
    draft = start(seed, replace(ORDINARY, nodes=(1, 4)), (3,), ("float32",))
    first = grow(Draft.limited(draft, 1), recurrent.PROPOSALS)
    return as_case("recurrent", seed, finish(grow(first, (*recurrent.PROPOSALS, *nodes.PROPOSALS))))


def control_(seed: int) -> Case:
    """Branches, nested by what they read and are read by."""
    draft = start(
        seed, replace(WIDE, nodes=(2, 7), special=0.0, empty=False), range(5), ("float32", "int64", "float64")
    )
    first = grow(Draft.limited(draft, 1), control.PROPOSALS)
    return as_case("control", seed, finish(grow(first, (*control.PROPOSALS * 20, *nodes.PROPOSALS))))


def products(seed: int) -> Case:
    """Matrix products with what stands behind them: what libraries of kernels take."""
    draft = start(seed, replace(ORDINARY, nodes=(1, 5)), (2, 2, 3, 4, 1), ("float32", "float32", "float64"))
    first = grow(Draft.limited(draft, 1), (nodes.gemm, nodes.matmul))
    return as_case("products", seed, finish(grow(first, (nodes.gemm, nodes.matmul, nodes.binary, nodes.unary))))


SOURCES: dict[str, Source] = {
    "small": small,
    "wide": wide,
    "products": products,
    "ordinary": ordinary,
    "quantized": quantized_,
    "recurrent": recurrent_,
    "control": control_,
    "nnsmith": nnsmith,
}


def case_of(source: str, seed: int) -> Case:
    """The case of *seed* from *source*. Raises NotApplicable for a seed that gives none."""
    case = SOURCES[source](seed)
    if not case.model.graph.node:
        raise NotApplicable("no node was drawn")
    return case


def start(seed: int, freedom: Freedom, ranks: Sequence[int], dtypes: Sequence[str]) -> Draft:
    """A draft with one to three inputs, of *ranks* and *dtypes*."""
    rng = random.Random(seed)
    free = rng.random() < 0.3
    draft = Draft(rng, rng.choice(freedom.opsets), rng.sample([1, 2, 3, 5], 2) if free else [1], freedom=freedom)
    for k in range(rng.randrange(1, 4)):
        rank = rng.choice(list(ranks))
        draft.add_input(shape_of(rng, rank, freedom.empty), rng.choice(list(dtypes)), free and rank > 0 and k < 2)
    return draft


def shape_of(rng: random.Random, rank: int, empty: bool) -> list[int]:
    """Sizes whose product stays small at any rank; in one case of twelve one of them is 0, where *empty* allows."""
    most = {0: 1, 1: 70, 2: 40, 3: 17, 4: 9, 5: 5, 6: 4, 7: 3, 8: 3}[rank]
    shape = [rng.choice((1, 2, 3, rng.randrange(1, most + 1))) for _ in range(rank)]
    if empty and rank and rng.random() < 1 / 12:
        shape[rng.randrange(rank)] = 0
    return shape


def as_case(source: str, seed: int, model: RandomModel) -> Case:
    """The case of a model that was drawn."""
    return Case(f"{source}-{seed}", model.proto, model.feeds, model.wanted)
