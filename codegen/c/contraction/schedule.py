"""The schedule of sums of products: tiles where every moving operand can be read in whole vectors."""

from __future__ import annotations

import dataclasses

from byoc.codegen.c.contraction.matrix_products import MatrixProduct, matrix_product, worth_shapes
from byoc.codegen.c.contraction.nest import contraction_nest, terms_written_out
from byoc.codegen.c.contraction.shape import Contraction, contraction, reads_whole_vectors
from byoc.codegen.c.contraction.tile_choice import Tile, choose_tile
from byoc.codegen.c.contraction.tile_space import META
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.loops import Stmt
from byoc.codegen.kernel.simplify import Simplifier

MOST_WRITTEN_OUT = 512  # terms of tiles at borders: a kernel nearly as large as its image has little else


def contract(nest: Nest, simplify: Simplifier, machine: Machine, alone: bool = False) -> list[Stmt]:
    """The tiled loop nest of *nest*, shared among the team or for one thread *alone*; nothing where it is no sum."""
    if machine.lanes(4) == 1:
        return []
    c = contraction(nest, simplify)
    if c is None or not reads_whole_vectors(c):
        return []
    decided = nest.stage.meta.get(META)
    tile = decided if isinstance(decided, Tile) else choose_tile(c, machine)
    if tile is not None and tile.matrix_rows:
        product = matrix_product(c, machine)
        plain = choose_tile(c, dataclasses.replace(machine, matrices=frozenset()))
        if product is not None and plain is not None and _fits(c, tile, plain, product, alone):
            from byoc.codegen.c.contraction.matrix_nest import matrix_nest

            return matrix_nest(c, tile, plain, product, alone)
        tile = plain
    if tile is None or terms_written_out(c, tile.rows) > MOST_WRITTEN_OUT:
        return []
    return contraction_nest(c, tile, alone)


def _fits(c: Contraction, tile: Tile, plain: Tile, product: MatrixProduct, alone: bool) -> bool:
    """Whether matrix registers do *c* in tiles of that size, which may have been decided on for a larger nest."""
    rows = c.row_count
    if rows < tile.rows if isinstance(rows, int) else plain.width != tile.width:  # few rows are left to vectors
        return False
    if terms_written_out(c, tile.rows) > MOST_WRITTEN_OUT:
        return False
    return not alone or worth_shapes(c, product, tile.matrix_rows)
