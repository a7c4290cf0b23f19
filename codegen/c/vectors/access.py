"""How the loads of a sum move with each axis, and what a tile of it costs: the arithmetic behind tiled schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import Index, PrimExpr
from byoc.te.expr import DOTS, Binary, Const, Intrinsic, Reduce
from byoc.te.tensor import Load
from byoc.te.walk import unique_nodes

VECTOR_DTYPES = frozenset(["float32", "float64", "int32", "int64"])


@dataclass(frozen=True)
class Access:
    """A load and by how many elements its place moves when an axis grows by one; None where that is not constant."""

    load: Load
    steps: dict[Index, int | None]

    @property
    def size(self) -> int:
        return estimated_size(self.load.tensor.shape)


def single_sum(nest: Nest) -> Reduce | None:
    """The reduction of a nest that is one sum of products of loads, with whatever epilogue; else None."""
    found = [n for n in unique_nodes(nest.value) if isinstance(n, Reduce)]
    if len(found) != 1 or found[0].kind != "sum" or found[0].dtype not in VECTOR_DTYPES:
        return None
    return found[0] if is_product_sum(found[0].body) else None


def is_product_sum(body: PrimExpr) -> bool:
    """Whether *body* is made of loads and numbers by adding, subtracting and multiplying."""
    stack = [body]
    loads = 0
    while stack:
        node = stack.pop()
        if isinstance(node, Binary) and node.op in ("add", "sub", "mul"):
            stack.extend((node.left, node.right))
        elif isinstance(node, Intrinsic) and node.name in DOTS:
            stack.extend(node.args)
        elif isinstance(node, Load):
            loads += 1
        elif not isinstance(node, Const):
            return False
    return loads > 0


def accesses(body: PrimExpr, axes: Sequence[Index], simplify: Simplifier) -> list[Access]:
    """The loads of *body* with their steps along *axes*."""
    result = []
    for node in unique_nodes(body):
        if isinstance(node, Load):
            flat = simplify.flat_index(node.tensor, node.indices)
            result.append(Access(node, {a: flat.coefficient(a) for a in axes}))
    return result


def column_tile(width: int, rows: int, lanes: int, machine: Machine) -> tuple[int, int]:
    """``(rows, vectors)`` of the tile that computes a *rows* x *width* plane in the least time, by a simple model.

    Two multiply-adds and two loads start in a cycle, and a sum waits four cycles for its last step.
    """
    best: tuple[float, int, int] | None = None
    for vectors in range(1, 5):
        if vectors > 1 and vectors * lanes > width:
            break
        for block in range(1, min(rows, 14) + 1):
            if block * vectors > machine.accumulators:
                break
            tiles = math.ceil(width / (vectors * lanes)) * math.ceil(rows / block)
            cycles = max(block * vectors / 2, (block + vectors) / 2, 4.0)
            cost = tiles * cycles * (1 + 0.02 * (block + vectors) / (block * vectors))
            if best is None or cost < best[0]:
                best = (cost, block, vectors)
    assert best is not None
    return best[1], best[2]


def dot_tile(rows: int, columns: int, machine: Machine) -> tuple[int, int]:
    """``(rows, columns)`` of the tile of dot products that loads least for each multiply-add."""
    best: tuple[float, int, int] | None = None
    for r in range(1, min(rows, 6) + 1):
        for c in range(1, min(columns, 6) + 1):
            if r * c > machine.accumulators:
                continue
            tiles = math.ceil(rows / r) * math.ceil(columns / c)
            cost = tiles * max(r * c / 2, (r + c) / 2, 4.0)
            if best is None or cost < best[0]:
                best = (cost, r, c)
    assert best is not None
    return best[1], best[2]
