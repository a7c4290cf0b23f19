"""Loop nests as C: the lines of one function's body.

A vector variable has one of GCC's vector types (``f32x16``), which clang has too: only such variables, by name, stay
in registers across a loop. Loads and stores of vectors go through memcpy, so that no alignment is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from byoc.codegen.c.language import matrix_registers
from byoc.codegen.c.language.dialect import HOSTED, Dialect
from byoc.codegen.c.vectors.expr import VectorExprWriter, is_vector_variable
from byoc.codegen.c.vectors.vectors import VectorPart, has_vector_function
from byoc.codegen.kernel.expr_text import ExprWriter, outside_name, shared_nodes
from byoc.codegen.kernel.loops import (
    AddLanes,
    Alloc,
    Argument,
    Barrier,
    CallFunction,
    For,
    IfThenElse,
    LetStmt,
    Outside,
    Prefetch,
    Share,
    Stmt,
    Store,
    VectorStore,
    WrittenFunction,
    in_order,
)
from byoc.codegen.kernel.simplify import as_index, is_one
from byoc.codegen.kernel.spelling import short_name
from byoc.codegen.kernel.writer import Writer
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr, Tensor, placeholder
from byoc.te.expr import INDEX, Const
from byoc.te.walk import operands


class StatementWriter:
    """Writes statements; ``vectors`` and ``functions`` collect the vector types and functions in use."""

    zeros = "{0}"  # of a vector
    values = VectorExprWriter

    def __init__(self, writer: Writer, exprs: ExprWriter, dialect: Dialect = HOSTED):
        self.writer, self.exprs, self.dialect = writer, exprs, dialect
        self.alone: list[Share] = []  # those of a single thread, whose bounds are written as they are
        self.vectors: dict[VectorPart, None] = {}
        self.functions: dict[WrittenFunction, None] = {}  # written by hand, that the statements call
        self.local_bytes = 0  # of all local arrays
        self.shapes: Sequence[tuple[int, int]] = ()  # of the matrix registers

    def block(self, statements: Sequence[Stmt]) -> None:
        """A sequence of statements."""
        rules = self.rules()
        for statement in statements:
            rules[type(statement)](self, statement)

    def rules(self) -> Mapping[type, Callable[..., None]]:
        """What writes each kind of statement."""
        return _RULES

    def loop(self, stmt: For) -> None:
        if is_one(stmt.extent) and is_one(stmt.index.extent):
            self.block(stmt.body)
            return
        start, extent = (self.exprs.simplify(as_index(e)) for e in (stmt.start, stmt.extent))
        first, bound = self.exprs.text(start), self.exprs.text(extent, 11)
        i = self.exprs.names(stmt.index, stmt.index.name)
        with self.writer.block(f"for ({self.dialect.index} {i} = {first}; {i} < {bound}; ++{i}) {{"):
            self.block(stmt.body)
        self.exprs.names.release(stmt.index)

    def store(self, stmt: Store) -> None:
        value = self._bind_shared(self._marked(stmt))
        place = self.exprs.element(stmt.target, tuple(stmt.indices))
        self.writer.line(f"{place} = {value};")

    def _marked(self, stmt: Store | VectorStore) -> PrimExpr:
        """What *stmt* stores, simplified, after noting where it adds to what is there."""
        value = self.exprs.simplify(stmt.value)
        self.exprs.steps.clear()
        self.exprs.mark_steps(value, stmt.target)
        return value

    def _bind_shared(self, value: PrimExpr) -> str:
        """The text of *value* after declaring what it uses more than once."""
        shared = shared_nodes(value)
        for node in shared:
            name = self.exprs.names.fresh("t")
            text = self.exprs.text(node)
            self.writer.line(f"const {self.exprs.language.types[node.dtype]} {name} = {text};")
            self.exprs.bound[id(node)] = name
        text = self.exprs.text(value)
        for node in shared:  # the variables end with their block, and another node may get the same id
            del self.exprs.bound[id(node)]
        return text

    def let(self, stmt: LetStmt) -> None:
        if is_one(stmt.index.extent):  # it is written as 0
            return
        name = self.exprs.names(stmt.index, stmt.index.name)
        self.writer.line(f"const {self.dialect.index} {name} = {self.exprs.text(self.exprs.simplify(stmt.value))};")

    def alloc(self, stmt: Alloc) -> None:
        tensor = stmt.tensor
        self.exprs.locals.add(tensor)
        name = self.exprs.names(tensor, tensor.name)
        ctype = self.exprs.language.types[tensor.dtype]
        if stmt.vector:
            self.exprs.registers.add(tensor)
            self.writer.line(self._vector_variable(stmt, name))
        elif tensor.shape:
            length = 1
            for extent in tensor.shape:
                length *= int(extent)
            self.local_bytes += length * dtype_bytes(tensor.dtype)
            self.writer.line(self._array(f"{ctype} {name}[{length}]", stmt.aligned))
        else:
            init = "" if stmt.init is None else f" = {self.exprs.text(self.exprs.simplify(stmt.init))}"
            self.writer.line(f"{ctype} {name}{init};")

    def _array(self, declared: str, aligned: bool) -> str:
        """The declaration of an array, which begins at a cache line where it is *aligned*."""
        return f"_Alignas(64) {declared};" if aligned and not self.dialect.plain else f"{declared};"

    def _vector_variable(self, stmt: Alloc, name: str) -> str:
        """The declaration of a vector variable; where *init* needs variables of its own, these come first."""
        lane = stmt.lane or Index("lane", stmt.tensor.shape[0])
        vectors = self._vectors(lane, stmt.count)
        ctype = vectors.type(stmt.tensor.dtype)
        if stmt.init is None or (isinstance(stmt.init, Const) and stmt.init.value == 0):
            return f"{ctype} {name} = {self.zeros};"
        text = vectors.root(self.exprs.simplify(stmt.init))
        return f"{ctype} {name} = {self._held(stmt, vectors, text) if stmt.held else text};"

    def _held(self, stmt: Alloc, vectors: VectorExprWriter, text: str) -> str:
        """*text*, the value of a vector that is held."""
        dtype = stmt.tensor.dtype
        return f"{vectors.function('held', dtype)}({text})" if has_vector_function("held", dtype) else text

    def branch(self, stmt: IfThenElse) -> None:
        cond = self.exprs.simplify(stmt.cond)
        if isinstance(cond, Const):
            if cond.value:
                self.block(stmt.body)
            return
        bounds = [id(e) for e in operands(stmt.cond)]
        if any(bounds == [id(s.begin), id(s.end)] for s in self.alone if is_one(s.extent)):
            self.block(stmt.body)  # one thread does what one of several is to do
            return
        with self.writer.block(f"if ({self.exprs.text(cond)}) {{"):
            self.block(stmt.body)

    def _vectors(self, lane: Index, count: int | None) -> VectorExprWriter:
        lanes = int(lane.extent)
        return self.values(
            self.exprs, lane, lanes if count is None else count, self.vectors, self.block, self.writer.line
        )

    def vector_store(self, stmt: VectorStore) -> None:
        vectors, target, indices = self._vectors(stmt.lane, stmt.count), stmt.target, tuple(stmt.indices)
        text = vectors.root(self._marked(stmt))
        if is_vector_variable(self.exprs, target, indices, stmt.lane):
            self.writer.line(f"{self.exprs.names(target, target.name)} = {text};")
            return
        if self.exprs.flat(target, indices).coefficient(stmt.lane) != 1:
            self._scatter(stmt, vectors, text)
            return
        place, dtype = vectors.address(target, indices), target.dtype
        if dtype == "bool":
            place, dtype = vectors.bytes_at(f"({place})", const=""), "uint8"
        if vectors.count == vectors.lanes:
            self.writer.line(f"{vectors.function('store', dtype)}({place}, {text});")
        else:
            self.writer.line(f"{vectors.function('store_first', dtype)}({place}, {text}, {vectors.count});")

    def _scatter(self, stmt: VectorStore, vectors: VectorExprWriter, text: str) -> None:
        """Lanes that are not next to each other, one by one."""
        dtype = "uint8" if stmt.target.dtype == "bool" else stmt.target.dtype
        value = placeholder((vectors.lanes,), stmt.target.dtype, "value")
        self.writer.line(f"const {vectors.type(dtype)} {self.exprs.names(value, value.name)} = {text};")
        self.exprs.locals.add(value)
        self.loop(For(stmt.lane, vectors.count, [Store(stmt.target, stmt.indices, value[stmt.lane])]))

    def add_lanes(self, stmt: AddLanes) -> None:
        vectors = self._vectors(Index("lane", stmt.source.shape[0]), None)
        name = vectors.function(stmt.kind if stmt.kind in ("sum", "prod") else f"fold_{stmt.kind}", stmt.source.dtype)
        place = self.exprs.element(stmt.target, tuple(stmt.indices))
        self.writer.line(f"{place} = {name}({self.exprs.names(stmt.source, stmt.source.name)});")

    def share(self, stmt: Share) -> None:
        """The bounds of this thread's part; of one that is alone, they need no variables."""
        if not self.dialect.team:
            self.alone.append(stmt)
            self.exprs.bound[id(stmt.begin)] = "0"
            self.exprs.bound[id(stmt.end)] = self.exprs.text(self.exprs.simplify(as_index(stmt.extent)), 14)
            return
        extent = self.exprs.text(self.exprs.simplify(as_index(stmt.extent)), 13)
        begin, end = (self.exprs.names(i, i.name) for i in (stmt.begin, stmt.end))
        for name, thread in ((begin, "team->thread"), (end, "(team->thread + 1)")):
            place = f"{extent} * {thread} / team->threads"
            if stmt.row:
                place = f"pair_start_{short_name(INDEX)}({place}, {stmt.row})"
                self.exprs.helpers.setdefault(("pair_start", INDEX))
            self.writer.line(f"const int64_t {name} = {place};")

    def barrier(self, stmt: Barrier) -> None:
        if not self.dialect.team:
            return
        self.writer.line("if (team_wait(team)) return;" if self.dialect.stops else "team_wait(team);")

    def prefetch(self, stmt: Prefetch) -> None:
        if self.dialect.plain:
            return
        place = self.exprs.text(self.exprs.simplify.rebuild(self.exprs.flat(stmt.tensor, tuple(stmt.indices))), 13)
        self.writer.line(f"__builtin_prefetch({self.exprs.names(stmt.tensor, stmt.tensor.name)} + {place}, 0, 2);")

    def call_function(self, stmt: CallFunction) -> None:
        self.functions.update(dict.fromkeys(in_order([stmt.function])))
        self.writer.line(f"{stmt.function.name}({', '.join(map(self._argument, stmt.arguments))});")

    def _argument(self, argument: Argument | Outside) -> str:
        if argument is None:
            return "0"
        if isinstance(argument, Tensor):
            return self.exprs.names(argument, argument.name)
        if isinstance(argument, PrimExpr | int):
            return self.exprs.text(self.exprs.simplify(as_index(argument)))
        if isinstance(argument, Outside):
            number = self.exprs.checks.index(argument.check)
            self.exprs.extents[number] = self._argument(argument.extent)
            return f"&{outside_name(number)}"
        element = "uint64_t *const" if any(isinstance(a, Outside) for a in argument) else "const int64_t"
        return f"({element}[]){{{', '.join(map(self._argument, argument))}}}"


_RULES: dict[type, Callable[..., None]] = {
    For: StatementWriter.loop,
    Store: StatementWriter.store,
    VectorStore: StatementWriter.vector_store,
    AddLanes: StatementWriter.add_lanes,
    LetStmt: StatementWriter.let,
    Alloc: StatementWriter.alloc,
    IfThenElse: StatementWriter.branch,
    Share: StatementWriter.share,
    Barrier: StatementWriter.barrier,
    Prefetch: StatementWriter.prefetch,
    CallFunction: StatementWriter.call_function,
    **matrix_registers.RULES,
}
