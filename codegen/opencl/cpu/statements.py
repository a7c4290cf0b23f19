"""C's statements as the lines of a kernel whose work-groups, of one work-item, are the threads of a team."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from byoc.codegen.c.vectors.expr import VectorExprWriter
from byoc.codegen.c.whole.statements import StatementWriter
from byoc.codegen.kernel.loops import Alloc, Barrier, Share, Stmt
from byoc.codegen.kernel.simplify import as_index
from byoc.codegen.kernel.spelling import short_name
from byoc.codegen.opencl.cpu.language import PART, PARTS, ZEROS
from byoc.te.expr import INDEX


class BlockVectors(VectorExprWriter):
    """A bool lies in memory as the byte that it is."""

    def bytes_at(self, place: str, const: str = "const ") -> str:
        return place


class BlockWriter(StatementWriter):
    """Writes the statements between two barriers: what waits for all is another kernel.

    But for the steps of a recurrence, which one work-group goes through alone: there is nobody to wait for.
    """

    zeros = ZEROS
    values = BlockVectors

    def rules(self) -> Mapping[type[Stmt], Callable[..., None]]:
        return {**super().rules(), Barrier: lambda writer, stmt: None, Share: BlockWriter.share}

    def _array(self, declared: str, aligned: bool) -> str:
        return f"{declared} __attribute__((aligned(64)));" if aligned else f"{declared};"

    def _held(self, stmt: Alloc, vectors: VectorExprWriter, text: str) -> str:
        return text  # PoCL's compiler keeps it

    def share(self, stmt: Share) -> None:
        """The bounds of this work-group's part."""
        extent = self.exprs.text(self.exprs.simplify(as_index(stmt.extent)), 13)
        begin, end = (self.exprs.names(i, i.name) for i in (stmt.begin, stmt.end))
        for name, number in ((begin, PART), (end, f"({PART} + 1)")):
            place = f"{extent} * {number} / {PARTS}"
            if stmt.row:
                place = f"pair_start_{short_name(INDEX)}({place}, {stmt.row})"
                self.exprs.helpers.setdefault(("pair_start", INDEX))
            self.writer.line(f"const int64_t {name} = {place};")
