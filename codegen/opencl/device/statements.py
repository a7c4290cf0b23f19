"""Loop nests as OpenCL C: the lines of one kernel's body, with what kernels have beyond loops.

Index variables are ``int`` where every position of the kernel's tensors fits, else ``long``: 64-bit division is slow
on GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.expr_text import ExprWriter, shared_nodes
from byoc.codegen.kernel.loops import UNROLL, Alloc, For, IfThenElse, LetStmt, Stmt, Store
from byoc.codegen.kernel.reductions import combine
from byoc.codegen.kernel.simplify import as_index
from byoc.codegen.kernel.writer import Writer
from byoc.te import Dimension, Index, PrimExpr, Tensor
from byoc.te.expr import Const

LINE_BYTES = 128  # where arrays in local memory begin
DRIVERS = 0  # in the place of a local size: the driver's own choice
LOCAL_SIZE = 64  # work-items of a group where nothing else is chosen; a launch may take any divisor of what is chosen


@dataclass(frozen=True, eq=False)
class WorkItem(Stmt):
    """*index* is this work-item's number; those beyond the extent (padding of the global size) end here.

    There are none where the extent is a multiple of the local size, which is *local* or a divisor of it (0: the
    driver's own choice); PoCL vectorises a kernel only without a branch.
    """

    index: Index
    local: int = LOCAL_SIZE


@dataclass(frozen=True, eq=False)
class WorkGroup(Stmt):
    """*index* is this work-group's number."""

    index: Index


@dataclass(frozen=True, eq=False)
class SharedLoop(Stmt):
    """*body* for *index* from 0 to *extent*, its iterations dealt out to the work-items of the group."""

    index: Index
    extent: Dimension
    body: Sequence[Stmt]


@dataclass(frozen=True, eq=False)
class GroupReduce(Stmt):
    """Fold the group's values of the local scalar *acc* by *kind* into element 0 of *scratch*, in local memory.

    *scratch* has an element for each work-item that a group may have; a launch may take any smaller power of two. The
    result is for the first work-item alone.
    """

    kind: str
    acc: Tensor
    scratch: Tensor


@dataclass(frozen=True, eq=False)
class FirstItem(Stmt):
    """*body* on the first work-item of the group alone."""

    body: Sequence[Stmt]


@dataclass(frozen=True, eq=False)
class LocalItem(Stmt):
    """*index* is this work-item's number in its group."""

    index: Index


@dataclass(frozen=True, eq=False)
class LocalArray(Stmt):
    """Declare *tensor* in the memory that a group shares; it begins at a multiple of *alignment* bytes."""

    tensor: Tensor
    alignment: int = LINE_BYTES


@dataclass(frozen=True, eq=False)
class GroupBarrier(Stmt):
    """No work-item of the group goes on before all are here."""


@dataclass(frozen=True, eq=False)
class GlobalBarrier(Stmt):
    """As GroupBarrier; what any of them stored in the device's memory before, all of them may read after it."""


@dataclass(frozen=True, eq=False)
class CopyVector(Stmt):
    """*count* neighbours of the local array *source* from *indices* on go to *target* from *first* on.

    The place in *source* is a multiple of *count*, which is 1, 2 or 4.
    """

    target: Tensor
    first: int
    source: Tensor
    indices: Sequence[PrimExpr]
    count: int


@dataclass(frozen=True, eq=False)
class BlockScope(Stmt):
    """*body* in a block of its own."""

    body: Sequence[Stmt]


class OwnText(Stmt):
    """A statement that writes its own lines."""

    def write(self, writer: KernelWriter) -> None:
        """Write them."""
        raise NotImplementedError


class KernelWriter:
    """Writes the statements of one kernel; *index_type* is ``int`` or ``long``."""

    def __init__(self, writer: Writer, exprs: ExprWriter, index_type: str):
        self.writer, self.exprs, self.index_type = writer, exprs, index_type

    def block(self, statements: Sequence[Stmt]) -> None:
        """A sequence of statements."""
        for statement in statements:
            if isinstance(statement, OwnText):
                statement.write(self)
            else:
                _RULES[type(statement)](self, statement)

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

    def _index(self, index: Index) -> str:
        return self.exprs.names(index, index.name)

    def _extent(self, extent: Dimension, least: int = 11) -> str:
        return self.exprs.text(self.exprs.simplify(as_index(extent)), least)

    def work_item(self, stmt: WorkItem) -> None:
        i = self._index(stmt.index)
        self.writer.line(f"const {self.index_type} {i} = get_global_id(0);")
        extent = self.exprs.simplify(as_index(stmt.index.extent))
        count = self.exprs.simplify.polynomial(extent)
        if stmt.local and any(n % stmt.local for n in (count.constant, *count.terms.values())):
            self.writer.line(f"if ({i} >= {self.exprs.text(extent, 11)}) return;")

    def work_group(self, stmt: WorkGroup) -> None:
        self.writer.line(f"const {self.index_type} {self._index(stmt.index)} = get_group_id(0);")

    def loop(self, stmt: For) -> None:
        extent = self.exprs.simplify(as_index(stmt.extent))
        if isinstance(extent, Const) and extent.value == 1:
            self.block(stmt.body)
            return
        i = self._index(stmt.index)
        if stmt.kind == UNROLL:
            self.writer.line("#pragma unroll")
        with self.writer.block(f"for ({self.index_type} {i} = 0; {i} < {self.exprs.text(extent, 11)}; ++{i}) {{"):
            self.block(stmt.body)

    def shared_loop(self, stmt: SharedLoop) -> None:
        i = self._index(stmt.index)
        bound = self._extent(stmt.extent)
        head = f"for ({self.index_type} {i} = get_local_id(0); {i} < {bound}; {i} += get_local_size(0)) {{"
        with self.writer.block(head):
            self.block(stmt.body)

    def store(self, stmt: Store) -> None:
        value = self._bind_shared(stmt.value, stmt.target)
        self.writer.line(f"{self.exprs.element(stmt.target, tuple(stmt.indices))} = {value};")

    def _bind_shared(self, value: PrimExpr, target: Tensor | None = None) -> str:
        """The text of *value*, for *target*, after declaring what it uses more than once."""
        value = self.exprs.simplify(value)
        if target is not None:
            self.exprs.mark_steps(value, target)
        shared = shared_nodes(value)
        for node in shared:
            text = self.exprs.text(node)
            name = self.exprs.names.fresh("t")
            self.writer.line(f"const {self.exprs.language.types[node.dtype]} {name} = {text};")
            self.exprs.bound[id(node)] = name
        text = self.exprs.text(value)
        for node in shared:  # the variables end with their block
            del self.exprs.bound[id(node)]
        self.exprs.steps.clear()
        return text

    def let(self, stmt: LetStmt) -> None:
        text = self.exprs.text(self.exprs.simplify(stmt.value))
        self.writer.line(f"const {self.index_type} {self._index(stmt.index)} = {text};")

    def alloc(self, stmt: Alloc) -> None:
        """A local scalar, or an array whose elements all begin as the number *init*, where there is one."""
        self.exprs.locals.add(stmt.tensor)
        if stmt.tensor.shape:
            self._alloc_array(stmt)
            return
        init = "" if stmt.init is None else f" = {self._bind_shared(stmt.init)}"
        ctype = self.exprs.language.types[stmt.tensor.dtype]
        self.writer.line(f"{ctype} {self.exprs.names(stmt.tensor, stmt.tensor.name)}{init};")

    def _alloc_array(self, stmt: Alloc) -> None:
        tensor, length = stmt.tensor, math.prod(int(d) for d in stmt.tensor.shape)
        name = self.exprs.names(tensor, tensor.name)
        self.writer.line(f"{self.exprs.language.types[tensor.dtype]} {name}[{length}];")
        if stmt.init is not None:
            self.writer.line("#pragma unroll")
            self.writer.line(f"for (int k = 0; k < {length}; ++k) {name}[k] = {self.exprs.text(stmt.init)};")

    def local_array(self, stmt: LocalArray) -> None:
        tensor, length = stmt.tensor, math.prod(int(d) for d in stmt.tensor.shape)
        self.exprs.locals.add(tensor)
        name, ctype = self.exprs.names(tensor, tensor.name), self.exprs.language.types[tensor.dtype]
        self.writer.line(f"__local {ctype} {name}[{length}] __attribute__((aligned({stmt.alignment})));")

    def local_item(self, stmt: LocalItem) -> None:
        self.writer.line(f"const {self.index_type} {self._index(stmt.index)} = get_local_id(0);")

    def group_barrier(self, stmt: GroupBarrier) -> None:
        self.writer.line("barrier(CLK_LOCAL_MEM_FENCE);")

    def global_barrier(self, stmt: GlobalBarrier) -> None:
        self.writer.line("barrier(CLK_GLOBAL_MEM_FENCE);")

    def copy_vector(self, stmt: CopyVector) -> None:
        place = self.exprs.element(stmt.source, tuple(stmt.indices))
        name = self.exprs.names(stmt.target, stmt.target.name)
        if stmt.count == 1:
            self.writer.line(f"{name}[{stmt.first}] = {place};")
            return
        ctype = f"{self.exprs.language.types[stmt.target.dtype]}{stmt.count}"
        vector = self.exprs.names.fresh("v")
        self.writer.line(f"const {ctype} {vector} = *(__local const {ctype} *)&{place};")
        for k in range(stmt.count):
            self.writer.line(f"{name}[{stmt.first + k}] = {vector}.s{k};")

    def branch(self, stmt: IfThenElse) -> None:
        cond = self.exprs.simplify(stmt.cond)
        if isinstance(cond, Const):
            self.block(stmt.body if cond.value else ())
            return
        with self.writer.block(f"if ({self.exprs.text(cond)}) {{"):
            self.block(stmt.body)

    def group_reduce(self, stmt: GroupReduce) -> None:
        """A tree in local memory; the barrier stands where every work-item of the group passes."""
        scratch, (size,) = stmt.scratch, stmt.scratch.shape
        name, acc = self.exprs.names(scratch, scratch.name), self.exprs.names(stmt.acc, stmt.acc.name)
        lane, step = Index("lane", size), Index("step", size)
        i, s = self._index(lane), self._index(step)
        self.writer.line(f"__local {self.exprs.language.types[scratch.dtype]} {name}[{size}];")
        self.writer.line(f"const int {i} = get_local_id(0);")
        self.writer.line(f"{name}[{i}] = {acc};")
        with self.writer.block(f"for (int {s} = get_local_size(0) / 2; {s} > 0; {s} /= 2) {{"):
            self.writer.line("barrier(CLK_LOCAL_MEM_FENCE);")
            folded = self.exprs.text(combine(stmt.kind, scratch[lane], scratch[lane + step]))
            self.writer.line(f"if ({i} < {s}) {name}[{i}] = {folded};")

    def scope(self, stmt: BlockScope) -> None:
        with self.writer.block("{"):
            self.block(stmt.body)

    def first_item(self, stmt: FirstItem) -> None:
        with self.writer.block("if (get_local_id(0) == 0) {"):
            self.block(stmt.body)


@dataclass(frozen=True, eq=False)
class StoreVector(OwnText):
    """*values* go to the element of *target* at *indices* and to those behind it, at once.

    They are as many as a vector of OpenCL C has, and the place is a multiple of that. Scalars would fill parts of a
    sector each.
    """

    target: Tensor
    indices: Sequence[PrimExpr]
    values: Sequence[PrimExpr]

    def write(self, writer: KernelWriter) -> None:
        exprs = writer.exprs
        vector = f"{exprs.language.types[self.target.dtype]}{len(self.values)}"
        texts = [writer.value(v) for v in self.values]
        place = exprs.element(self.target, tuple(self.indices))
        writer.writer.line(f"*(__global {vector} *)&{place} = ({vector})({', '.join(texts)});")


_RULES: dict[type, Callable[..., None]] = {
    WorkItem: KernelWriter.work_item,
    WorkGroup: KernelWriter.work_group,
    For: KernelWriter.loop,
    SharedLoop: KernelWriter.shared_loop,
    Store: KernelWriter.store,
    LetStmt: KernelWriter.let,
    Alloc: KernelWriter.alloc,
    IfThenElse: KernelWriter.branch,
    BlockScope: KernelWriter.scope,
    GroupReduce: KernelWriter.group_reduce,
    FirstItem: KernelWriter.first_item,
    LocalItem: KernelWriter.local_item,
    LocalArray: KernelWriter.local_array,
    GroupBarrier: KernelWriter.group_barrier,
    GlobalBarrier: KernelWriter.global_barrier,
    CopyVector: KernelWriter.copy_vector,
}
