"""What kernels of rows have beyond loops: numbers of a whole row, folded by its work-items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.loops import Stmt
from byoc.codegen.kernel.reductions import combine
from byoc.codegen.opencl.device.statements import KernelWriter, LocalArray
from byoc.te import Index, PrimExpr, Tensor, binary, logical_not
from byoc.te.expr import Binary


@dataclass(frozen=True, eq=False)
class GroupFold(Stmt):
    """*acc* of every work-item of the group becomes the fold of all by *kind*.

    *scratch*, in local memory and of no other statement, has an element for each work-item that a group may have; a
    launch may take any smaller power of two.
    """

    kind: str
    acc: Tensor
    scratch: Tensor


@dataclass(frozen=True, eq=False)
class GroupPosition(Stmt):
    """*best* and *position* of every work-item become those of the one that wins among the group.

    Of equal values, and of NaNs, the first position wins: ``argmin`` or ``argmax``. Scratch as for GroupFold.
    """

    kind: str
    best: Tensor
    position: Tensor
    values: Tensor
    places: Tensor


@dataclass(frozen=True, eq=False)
class BlockScope(Stmt):
    """*body* in a block of its own."""

    body: Sequence[Stmt]


class OwnText(Stmt):
    """A statement that writes its own lines."""

    def write(self, writer: RowWriter) -> None:
        """Write them."""
        raise NotImplementedError


def wins(kind: str, value: PrimExpr, best: PrimExpr) -> PrimExpr:
    """Whether *value* is better than *best*, which stands before it."""
    better = binary("lt" if kind == "argmin" else "gt", value, best)
    if not value.dtype.startswith("float"):
        return better
    nan = binary("and", Binary("ne", value, value), logical_not(Binary("ne", best, best)))
    return binary("or", better, nan)


class RowWriter(KernelWriter):
    """A writer of kernels that knows the statements of rows too."""

    def block(self, statements: Sequence[Stmt]) -> None:
        """A sequence of statements."""
        for statement in statements:
            if isinstance(statement, OwnText):
                statement.write(self)
                continue
            rule = _RULES.get(type(statement))
            if rule is None:
                super().block([statement])
            else:
                rule(self, statement)

    def scope(self, stmt: BlockScope) -> None:
        with self.writer.block("{"):
            self.block(stmt.body)

    def index(self, index: Index) -> str:
        """The name of *index*."""
        return self._index(index)

    def declare(self, index: Index, text: str) -> None:
        """*index* is *text* for the rest of the block."""
        self.writer.line(f"const {self.index_type} {self._index(index)} = {text};")

    def extent(self, axis: Index) -> str:
        """The number of positions of *axis*."""
        return self._extent(axis.extent)

    def value(self, expr: PrimExpr) -> str:
        """The text of *expr*, after declaring what it uses more than once."""
        return self._bind_shared(expr)

    def group_fold(self, stmt: GroupFold) -> None:
        """A tree; behind the last barrier everyone reads the result, which nothing overwrites."""
        scratch = stmt.scratch
        acc = self.exprs.names(stmt.acc, stmt.acc.name)
        self.local_array(LocalArray(scratch))
        name = self.exprs.names(scratch, scratch.name)

        def fold(lane: Index, other: PrimExpr) -> None:
            text = self.exprs.text(combine(stmt.kind, scratch[lane], scratch[other]))
            self.writer.line(f"{name}[{self._index(lane)}] = {text};")

        self._tree([(name, acc)], fold, scratch)
        self.writer.line(f"{acc} = {name}[0];")

    def group_position(self, stmt: GroupPosition) -> None:
        values, places = stmt.values, stmt.places
        pairs: list[tuple[str, str]] = []
        for tensor, own in ((values, stmt.best), (places, stmt.position)):
            self.local_array(LocalArray(tensor))
            pairs.append((self.exprs.names(tensor, tensor.name), self.exprs.names(own, own.name)))

        def fold(lane: Index, other: PrimExpr) -> None:
            value, best = values[other], values[lane]
            lost = wins(stmt.kind, best, value)
            earlier = binary("and", logical_not(lost), binary("lt", places[other], places[lane]))
            better = self.exprs.text(binary("or", wins(stmt.kind, value, best), earlier))
            with self.writer.block(f"if ({better}) {{"):
                for array, _ in pairs:
                    self.writer.line(f"{array}[{self._index(lane)}] = {array}[{self.exprs.text(other)}];")

        self._tree(pairs, fold, values)
        for name, target in pairs:
            self.writer.line(f"{target} = {name}[0];")

    def _tree(self, pairs: Sequence[tuple[str, str]], fold: Callable[[Index, PrimExpr], None], scratch: Tensor) -> None:
        (size,) = scratch.shape
        lane, step = Index("lane", size), Index("step", size)
        i, s = self._index(lane), self._index(step)
        self.writer.line(f"const int {i} = get_local_id(0);")
        for name, own in pairs:
            self.writer.line(f"{name}[{i}] = {own};")
        with self.writer.block(f"for (int {s} = get_local_size(0) / 2; {s} > 0; {s} /= 2) {{"):
            self.writer.line("barrier(CLK_LOCAL_MEM_FENCE);")
            with self.writer.block(f"if ({i} < {s}) {{"):
                fold(lane, lane + step)
        self.writer.line("barrier(CLK_LOCAL_MEM_FENCE);")


_RULES: dict[type, Callable[..., None]] = {
    BlockScope: RowWriter.scope,
    GroupFold: RowWriter.group_fold,
    GroupPosition: RowWriter.group_position,
}
