"""Loop nests as C: the lines of one function's body.

A vector variable has one of GCC's vector types (``f32x16``), which clang has too: only such variables, by name, stay
in registers across a loop. Loads and stores of vectors go through memcpy, so that no alignment is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.codegen.kernel.expr_text import ExprWriter, shared_nodes
from byoc.codegen.kernel.loops import AddLanes, Alloc, Barrier, For, If, Let, Share, Stmt, Store, VectorStore
from byoc.codegen.kernel.simplify import as_index, is_one
from byoc.codegen.kernel.spelling import ATOM, short_name
from byoc.codegen.kernel.writer import Writer
from byoc.errors import InternalError
from byoc.te import Index, PrimExpr, Tensor
from byoc.te.expr import Binary, Const, Load

_VECTOR_OPERATORS = {"add": ("+", 12), "sub": ("-", 12), "mul": ("*", 13)}


class StatementWriter:
    """Writes statements; ``vectors`` collects the vector types in use as ``(dtype, lanes)``."""

    def __init__(self, writer: Writer, exprs: ExprWriter):
        self.writer, self.exprs = writer, exprs
        self.vectors: dict[tuple[str, int], None] = {}
        self.meets = False  # whether anything asks for the team

    def block(self, statements: Sequence[Stmt]) -> None:
        """A sequence of statements."""
        for statement in statements:
            _RULES[type(statement)](self, statement)

    def loop(self, stmt: For) -> None:
        if is_one(stmt.extent) and is_one(stmt.index.extent):
            self.block(stmt.body)
            return
        start, extent = (self.exprs.simplify(as_index(e)) for e in (stmt.start, stmt.extent))
        first, bound = self.exprs.text(start), self.exprs.text(extent, 11)
        i = self.exprs.names(stmt.index, stmt.index.name)
        with self.writer.block(f"for (int64_t {i} = {first}; {i} < {bound}; ++{i}) {{"):
            self.block(stmt.body)
        self.exprs.names.release(stmt.index)

    def store(self, stmt: Store) -> None:
        value = self._bind_shared(self.exprs.simplify(stmt.value))
        place = self.exprs.element(stmt.target, tuple(stmt.indices))
        self.writer.line(f"{place} = {value};")

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

    def let(self, stmt: Let) -> None:
        name = self.exprs.names(stmt.index, stmt.index.name)
        self.writer.line(f"const int64_t {name} = {self.exprs.text(self.exprs.simplify(stmt.value))};")

    def alloc(self, stmt: Alloc) -> None:
        tensor = stmt.tensor
        self.exprs.locals.add(tensor)
        name = self.exprs.names(tensor, tensor.name)
        ctype = self.exprs.language.types[tensor.dtype]
        if stmt.vector:
            ctype = self.vector_type(tensor.dtype, int(tensor.shape[0]))
            self.writer.line(f"{ctype} {name} = {self._vector_init(stmt, ctype)};")
        elif tensor.shape:
            length = 1
            for extent in tensor.shape:
                length *= int(extent)
            self.writer.line(f"{ctype} {name}[{length}];")
        else:
            init = "" if stmt.init is None else f" = {self.exprs.text(self.exprs.simplify(stmt.init))}"
            self.writer.line(f"{ctype} {name}{init};")

    def _vector_init(self, stmt: Alloc, ctype: str) -> str:
        if stmt.init is None or (isinstance(stmt.init, Const) and stmt.init.value == 0):
            return "{0}"
        if stmt.lane is not None:
            return self._vector(self.exprs.simplify(stmt.init), stmt.lane)[0]
        return f"({ctype}){{0}} + {self.exprs.text(self.exprs.simplify(stmt.init), 13)}"

    def branch(self, stmt: If) -> None:
        cond = self.exprs.simplify(stmt.cond)
        if isinstance(cond, Const):
            if cond.value:
                self.block(stmt.body)
            return
        with self.writer.block(f"if ({self.exprs.text(cond)}) {{"):
            self.block(stmt.body)

    def vector_type(self, dtype: str, lanes: int) -> str:
        """The name of a vector type, remembered so that it gets defined."""
        self.vectors.setdefault((dtype, lanes))
        return f"{short_name(dtype)}x{lanes}"

    def vector_store(self, stmt: VectorStore) -> None:
        value = self._vector(self.exprs.simplify(stmt.value), stmt.lane)[0]
        if self._is_vector_variable(stmt.target, tuple(stmt.indices), stmt.lane):
            self.writer.line(f"{self.exprs.names(stmt.target, stmt.target.name)} = {value};")
            return
        kind = self.vector_type(stmt.target.dtype, int(stmt.lane.extent))
        place = self._address(stmt.target, tuple(stmt.indices), stmt.lane)
        self.writer.line(f"store_{kind}({place}, {value});")

    def _is_vector_variable(self, tensor: Tensor, indices: tuple[PrimExpr, ...], lane: Index) -> bool:
        return tensor in self.exprs.locals and len(indices) == 1 and indices[0] is lane

    def _address(self, tensor: Tensor, indices: tuple[PrimExpr, ...], lane: Index) -> str:
        """The address of lane 0. Raises InternalError when lanes are not next to each other."""
        flat = self.exprs.flat(tensor, indices)
        if flat.coefficient(lane) != 1:
            raise InternalError(f"the lanes of {tensor.name} are not contiguous")
        base = flat.without(lane)
        offset = self.exprs.text(self.exprs.simplify.rebuild(base), 13)
        return f"{self.exprs.names(tensor, tensor.name)} + {offset}"

    def _vector(self, expr: PrimExpr, lane: Index) -> tuple[str, int]:
        """*expr* for all lanes: a vector, or a number where it is the same for all."""
        if isinstance(expr, Binary) and expr.op in _VECTOR_OPERATORS:
            symbol, precedence = _VECTOR_OPERATORS[expr.op]
            left, right = self._vector(expr.left, lane), self._vector(expr.right, lane)
            a = left[0] if left[1] >= precedence else f"({left[0]})"
            b = right[0] if right[1] > precedence else f"({right[0]})"
            return f"{a} {symbol} {b}", precedence
        if isinstance(expr, Load):
            return self._vector_load(expr, lane), ATOM
        return self.exprs.text(expr, ATOM), ATOM

    def _vector_load(self, expr: Load, lane: Index) -> str:
        if self._is_vector_variable(expr.tensor, expr.indices, lane):
            return self.exprs.names(expr.tensor, expr.tensor.name)
        flat = self.exprs.flat(expr.tensor, expr.indices)
        step = flat.coefficient(lane)
        if step == 0:
            return self.exprs.text(expr)
        kind = self.vector_type(expr.dtype, int(lane.extent))
        if step == 1:
            return f"load_{kind}({self._address(expr.tensor, expr.indices, lane)})"
        if step is None:
            raise InternalError(f"{expr.tensor.name} is not read at regular distances")
        base = self.exprs.simplify.rebuild(flat.without(lane))
        place = f"{self.exprs.names(expr.tensor, expr.tensor.name)} + {self.exprs.text(base, 13)}"
        items = ", ".join(f"({place})[{step * k}]" for k in range(int(lane.extent)))
        return f"({kind}){{{items}}}"

    def add_lanes(self, stmt: AddLanes) -> None:
        kind = self.vector_type(stmt.source.dtype, int(stmt.source.shape[0]))
        place = self.exprs.element(stmt.target, tuple(stmt.indices))
        self.writer.line(f"{place} = sum_{kind}({self.exprs.names(stmt.source, stmt.source.name)});")


    def share(self, stmt: Share) -> None:
        """The bounds of this thread's part."""
        self.meets = True
        extent = self.exprs.text(self.exprs.simplify(as_index(stmt.extent)), 13)
        begin, end = (self.exprs.names(i, i.name) for i in (stmt.begin, stmt.end))
        self.writer.line(f"const int64_t {begin} = {extent} * team->thread / team->threads;")
        self.writer.line(f"const int64_t {end} = {extent} * (team->thread + 1) / team->threads;")

    def barrier(self, stmt: Barrier) -> None:
        self.meets = True
        self.writer.line("team_wait(team);")


_RULES: dict[type, Callable[..., None]] = {
    For: StatementWriter.loop,
    Store: StatementWriter.store,
    VectorStore: StatementWriter.vector_store,
    AddLanes: StatementWriter.add_lanes,
    Let: StatementWriter.let,
    Alloc: StatementWriter.alloc,
    If: StatementWriter.branch,
    Share: StatementWriter.share,
    Barrier: StatementWriter.barrier,
}
