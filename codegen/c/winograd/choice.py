"""The methods of computing a convolution, and a model of the cycles that each takes.

Multiplications run at two vectors a cycle while their operands come in time. Weights come from memory once and are
fetched ahead, so the products take the longer of the two; transformed weights are 1.8 (F(2, 3)) or 4 times as large as
they were, which is why small images with many channels gain less. Transforms take their loads, stores and sums. The
constants were fitted on an AMD Zen 5 to layers of 64 channels over 56 x 56 up to 512 over 7 x 7, warm and cold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.winograd.convolution import Convolution
from byoc.codegen.c.winograd.sizes import WinogradPlan
from byoc.codegen.c.winograd.transforms import KERNEL

MOST_LOCAL = 384 << 10  # bytes of local arrays in one thread
MOST_STORED = 8 << 20  # bytes of transformed tiles
MOST_ROWS = 16
MOST_VECTORS = 4
MOST_BLOCKS = 8
TILES = 2  # register tiles of each width that are tried
FEWEST_CHANNELS = 2
LATENCY = 4.0  # cycles until a sum can take its next term
START = 24.0  # cycles to begin a register tile and to leave it
DIRECT = 1.07  # cycles of a direct convolution for each that its multiplications take
STREAM = 8.0  # bytes that come from memory in a cycle
BESIDE = 0.1  # of the shorter of two things that are done at once, which the longer does not hide
SHARED = 40.0  # and from the cache that the cores share
OWN_CACHE = 1 << 20
NEAR_WEIGHTS = 3 * OWN_CACHE // 4  # bytes of weights that stay there
NEAR = 32.0  # bytes that come from there in a cycle
FIRST_CACHE = 32 << 10  # of which a panel may fill so much
REREAD = 80.0  # bytes in a cycle of a panel that does not fit there
TRANSFORM = 3.2  # cycles for each point of a transform, with its load, its sums and its store
TEAMS = (1, 2, 4)  # threads that may share the parts of a plan; the mean counts
TYPICAL_BATCHES = (1, 8)  # of which the mean counts where the batch is free
GAIN = 0.95  # of the time of the direct method, at most: what is left must be worth the larger weights


def candidates(conv: Convolution, machine: Machine, outputs: int) -> Iterator[WinogradPlan]:
    """The plans of F(*outputs*, 3) to choose from, or to measure."""
    batch = conv.stage.shape[0]
    if isinstance(batch, int):
        yield from _candidates(conv, machine, outputs, batch)
        return
    for plan in _candidates(conv, machine, outputs, max(TYPICAL_BATCHES)):
        yield replace(plan, batch=batch)


def _candidates(conv: Convolution, machine: Machine, outputs: int, batch: int) -> Iterator[WinogradPlan]:
    """Those for a known batch."""
    height, width, filters = (int(d) for d in conv.stage.shape[1:])
    lanes = machine.lanes(4)
    while lanes >= 2 * filters:
        lanes //= 2
    if machine.lanes(4) == 1 or lanes < 2 or conv.channels < FEWEST_CHANNELS:
        return
    one = WinogradPlan(outputs, batch, height, width, conv.channels, filters, 1, 1, lanes, 1, False)
    for rows, vectors in _register_tiles(one, machine):
        for blocks in range(1, min(MOST_BLOCKS, math.ceil(int(one.tiles) / rows)) + 1):
            for stored in (False, True):
                plan = replace(one, rows=rows, vectors=vectors, blocks=blocks, stored=stored)
                if plan.local_bytes <= MOST_LOCAL and (not stored or plan.input_bytes <= MOST_STORED):
                    yield plan


def _register_tiles(one: WinogradPlan, machine: Machine) -> list[tuple[int, int]]:
    """Rows and vectors of the register tiles whose products take the fewest cycles, a few of each width."""
    best = []
    for vectors in range(1, min(MOST_VECTORS, math.ceil(one.filters / one.lanes)) + 1):
        most = min(MOST_ROWS, int(one.tiles), (machine.registers - 1) // vectors - 1)
        plans = [replace(one, rows=rows, vectors=vectors) for rows in range(1, most + 1)]
        best += sorted(plans, key=_product_cycles)[:TILES]
    return [(p.rows, p.vectors) for p in sorted(best, key=_product_cycles)]


def cycles(plan: WinogradPlan) -> float:
    """What *plan* takes on one core, or as much as that on each of several, with what they wait for each other.

    Where the batch is free: for one image, in the mean over the typical batches.
    """
    if isinstance(plan.batch, int):
        return _cycles(plan)
    return sum(_cycles(replace(plan, batch=b)) / b for b in TYPICAL_BATCHES) / len(TYPICAL_BATCHES)


def _cycles(plan: WinogradPlan) -> float:
    tiles, chunks, parts = int(plan.tiles), int(plan.chunks), int(plan.parts)
    product = plan.points * _product_cycles(plan)
    weights = plan.weight_bytes / STREAM
    if plan.weight_bytes <= NEAR_WEIGHTS:
        weights += (chunks - 1) * plan.weight_bytes / NEAR
    total = max(product, weights) + BESIDE * min(product, weights)
    panel = 4 * plan.channels * plan.panel
    if panel > FIRST_CACHE:
        total += plan.points * plan.panels * math.ceil(tiles / plan.rows) * panel / REREAD
    if plan.weight_bytes > NEAR_WEIGHTS:
        total += (chunks - 1) * plan.weight_bytes / SHARED
    total += TRANSFORM * plan.points * tiles * (math.ceil(plan.channels / plan.lanes) + plan.panels * plan.vectors)
    if plan.stored and plan.input_bytes + plan.weight_bytes / plan.panels > OWN_CACHE:
        total += (3 + plan.panels) * plan.input_bytes / SHARED
    return total * sum(math.ceil(parts / t) * t / parts for t in TEAMS) / len(TEAMS)


def _product_cycles(plan: WinogradPlan) -> float:
    """The products of one point."""
    whole, rest = divmod(int(plan.tiles), plan.rows)
    return plan.panels * (whole * _tile_cycles(plan, plan.rows) + (_tile_cycles(plan, rest) if rest else 0.0))


def _tile_cycles(plan: WinogradPlan, rows: int) -> float:
    term = max(rows * plan.vectors / 2, (rows + plan.vectors) / 2, LATENCY)
    return plan.channels * (term + 0.25) + START + rows * plan.vectors


def direct_cycles(conv: Convolution, machine: Machine) -> float:
    """What the convolution takes on one core as a sum of products; terms outside of the image are left out there.

    Where the batch is free: for one image, in the mean over the typical batches.
    """
    batch = conv.stage.shape[0]
    if isinstance(batch, int):
        return _direct_cycles(conv, machine, batch)
    return sum(_direct_cycles(conv, machine, b) / b for b in TYPICAL_BATCHES) / len(TYPICAL_BATCHES)


def _direct_cycles(conv: Convolution, machine: Machine, batch: int) -> float:
    height, width, filters = (int(d) for d in conv.stage.shape[1:])
    vectors = math.ceil(filters / machine.lanes(4))
    terms = batch * _terms(height, conv.inside[0]) * _terms(width, conv.inside[1]) * conv.channels
    product = DIRECT * terms * vectors / 2
    weights = 4 * KERNEL * KERNEL * conv.channels * filters / STREAM
    return max(product, weights) + BESIDE * min(product, weights)


def _terms(outputs: int, inside: tuple[int, int]) -> int:
    """Of the KERNEL terms of each output along one axis those whose input, numbered from the first tap, is *inside*."""
    return sum(inside[0] <= k + tap < inside[1] for k in range(outputs) for tap in range(KERNEL))
