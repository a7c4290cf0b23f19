"""The text of an expression for all values of a lane axis at once.

What no lane changes stays a scalar. A bool is a mask: the integers of some width, all bits of a lane set or none. What
has no vector form (an integer division, a gather, a guarded load) is computed lane by lane into a small array first; so
any expression can be written, and :func:`~byoc.codegen.c.vectors.lane_analysis.can_be_vector` says which need none
of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.codegen.c.vectors.lane_analysis import MASK_LOGIC, POWERS, ROUNDINGS, LaneAnalysis, values
from byoc.codegen.c.vectors.vectors import VectorPart, vector_name
from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.loops import Alloc, For, Stmt, Store
from byoc.codegen.kernel.spelling import ATOM, OPERATORS, TERNARY, UNARY
from byoc.errors import InternalError
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr, Tensor, placeholder
from byoc.te.expr import DOTS, INDEX, LOGIC, Binary, Cast, Const, Intrinsic, Reduce, Select, Size
from byoc.te.tensor import Load
from byoc.te.walk import operands

Text = tuple[str, int]  # with the precedence of its outermost operator
_PLAIN = frozenset(["float32", "float64", "int32", "int64"])  # a scalar beside a vector of these is widened by C


class VectorExprWriter:
    """Writes one statement's expressions over *lane*, of which the first *count* values exist.

    *parts* collects the types and functions in use; *block* writes statements before the one at hand.
    """

    def __init__(
        self,
        exprs: ExprWriter,
        lane: Index,
        count: int,
        parts: dict[VectorPart, None],
        block: Callable[[Sequence[Stmt]], None],
        line: Callable[[str], None],
    ):
        self.exprs, self.lane, self.count, self.parts, self.block, self.line = exprs, lane, count, parts, block, line
        self.lanes = int(lane.extent)
        self.analysis = LaneAnalysis(lane, self.lanes, exprs.simplify)
        self.bound: dict[int, str] = {}
        self.uniform: list[int] = []

    def type(self, dtype: str) -> str:
        """The name of the vector type, which gets defined."""
        self.parts.setdefault(("", dtype, self.lanes))
        return vector_name(dtype, self.lanes)

    def function(self, name: str, dtype: str) -> str:
        """The name of a vector function, which gets defined."""
        self.parts.setdefault((name, dtype, self.lanes))
        return f"{name}_{vector_name(dtype, self.lanes)}"

    def root(self, expr: PrimExpr) -> str:
        """The vector of *expr*, simplified, as the statement stores it: a bool as bytes of 0 and 1."""
        self.analysis.begin(expr)
        self._bind_shared(expr)
        text = self.stored_mask(expr) if expr.dtype == "bool" else self.vector(expr)
        for node in self.uniform:  # the variables end with their block
            del self.exprs.bound[node]
        return text

    def stored_mask(self, expr: PrimExpr) -> str:
        bits = self._natural(expr)
        mask = self.mask(expr, bits)
        return f"__builtin_convertvector({mask} & 1, {self.type('uint8')})"

    def vector(self, expr: PrimExpr) -> str:
        """*expr* as a vector, at the precedence of an atom."""
        if self.analysis.varies(expr):
            return self._atom(self.value(expr))
        return f"{self.function('splat', expr.dtype)}({self.exprs.text(expr)})"

    def argument(self, expr: PrimExpr) -> str:
        """*expr* as a vector where commas stand around it."""
        return self.value(expr)[0] if self.analysis.varies(expr) else self.vector(expr)

    def _atom(self, text: Text) -> str:
        return text[0] if text[1] >= ATOM else f"({text[0]})"

    def value(self, expr: PrimExpr) -> Text:
        """*expr*, not a bool, which lanes change."""
        name = self.bound.get(id(expr))
        if name is not None:
            return name, ATOM
        if not self.analysis.direct(expr):
            return self._by_lanes(expr), ATOM
        return _RULES[type(expr)](self, expr)

    def _by_lanes(self, expr: PrimExpr) -> str:
        """The vector of an array that a loop over the lanes fills, the places beyond *count* with 0."""
        dtype = "uint8" if expr.dtype == "bool" else expr.dtype
        array = placeholder((self.lanes,), expr.dtype, "each")
        self.block(
            [
                Alloc(array),
                For(self.lane, self.count, [Store(array, (self.lane,), expr)]),
            ]
        )
        name = self.exprs.names(array, array.name)
        pointer = self.bytes_at(name) if dtype != expr.dtype else name
        if self.count == self.lanes:
            return f"{self.function('load', dtype)}({pointer})"
        return f"{self.function('load_first', dtype)}({pointer}, {self.count})"

    def mask(self, expr: PrimExpr, bits: int) -> str:
        """The bool *expr* as an atom: a vector of integers of *bits*."""
        dtype = f"int{bits}"
        bound = self.bound.get(id(expr))
        if bound is not None:
            return self._widened(bound, self._natural(expr), bits)
        if not self.analysis.varies(expr):
            return f"{self.function('splat', dtype)}({self.exprs.text(expr, TERNARY + 1)} ? -1 : 0)"
        fixed = self.analysis.fixed_mask(expr)
        if fixed is not None:
            return f"({self.type(dtype)}){{{', '.join('-1' if holds else '0' for holds in fixed)}}}"
        affine = self.analysis.affine(expr)
        if affine is not None and isinstance(expr, Binary):
            return self._widened(self._compared_lanes(expr.op, *affine), 32, bits)
        is_direct = self.analysis.direct(expr)
        if isinstance(expr, Load) or not is_direct:
            whole = self._load(expr, "uint8") if isinstance(expr, Load) and is_direct else self._by_lanes(expr)
            return f"(__builtin_convertvector({whole}, {self.type(dtype)}) != 0)"
        return _MASK_RULES[type(expr)](self, expr, bits)

    def _compared_lanes(self, op: str, factor: int, rest: PrimExpr) -> str:
        """``factor * lane + rest`` against 0, in 32 bits."""
        lanes = ", ".join(str(factor * k) for k in range(self.lanes))
        return f"(({self.type('int32')}){{{lanes}}} {OPERATORS[op][0]} (int32_t)-({self.exprs.text(rest)}))"

    def _widened(self, mask: str, have: int, bits: int) -> str:
        return mask if have == bits else f"__builtin_convertvector({mask}, {self.type(f'int{bits}')})"

    def _natural(self, expr: PrimExpr) -> int:
        """The width of mask in which the comparison under *expr* gives its result."""
        for node in values(expr):
            if node.dtype != "bool" and self.analysis.varies(node) and dtype_bytes(node.dtype) * self.lanes <= 64:
                return 8 * dtype_bytes(node.dtype)
        return 8

    def _mask_binary(self, expr: Binary, bits: int) -> str:
        if expr.left.dtype == "bool":
            left, right = self.mask(expr.left, bits), self.mask(expr.right, bits)
            return f"(~({left} ^ {right}))" if expr.op == "eq" else f"({left} {MASK_LOGIC[expr.op]} {right})"
        symbol, dtype = OPERATORS[expr.op][0], expr.left.dtype
        text = f"({self._operand(expr.left, 12)} {symbol} {self._operand(expr.right, 12)})"
        return self._widened(text, 8 * dtype_bytes(dtype), bits)

    def _mask_intrinsic(self, expr: Intrinsic, bits: int) -> str:
        inner = expr.args[0]
        if expr.name in ("not", "bit_not"):
            return f"(~{self.mask(inner, bits)})"
        text = f"{self.function(expr.name, inner.dtype)}({self.argument(inner)})"
        return self._widened(text, 8 * dtype_bytes(inner.dtype), bits)

    def _mask_select(self, expr: Select, bits: int) -> str:
        if self.analysis.keeps_branch(expr):
            cond = self.exprs.text(expr.cond, TERNARY + 1)
            return f"({cond} ? {self.mask(expr.then, bits)} : {self.mask(expr.otherwise, bits)})"
        name = self.function("select", f"int{bits}")
        return f"{name}({', '.join(self.mask(e, bits) for e in (expr.cond, expr.then, expr.otherwise))})"

    def _mask_cast(self, expr: Cast, bits: int) -> str:
        if expr.value.dtype == "bool":
            return self.mask(expr.value, bits)
        return self._widened(f"({self.vector(expr.value)} != 0)", 8 * dtype_bytes(expr.value.dtype), bits)

    def _operand(self, expr: PrimExpr, least: int) -> str:
        """An operand of an operator: a scalar may stand beside a vector of its own dtype."""
        if self.analysis.varies(expr):
            text = self.value(expr)
            return text[0] if text[1] >= least else f"({text[0]})"
        return self.exprs.text(expr, least) if expr.dtype in _PLAIN else self.vector(expr)

    def binary(self, expr: Binary) -> Text:
        if expr.op in ("min", "max"):
            return self._extreme(expr), ATOM
        symbol, precedence = OPERATORS[expr.op]
        inner = precedence if precedence >= 12 else ATOM - 1
        right = inner + 1 if precedence >= 12 else inner
        return f"{self._term(expr, expr.left, inner)} {symbol} {self._term(expr, expr.right, right)}", precedence

    def _term(self, expr: Binary, operand: PrimExpr, least: int) -> str:
        """An operand of *expr*; a product that it adds is rounded first, unless that is a step of a sum."""
        if not self.exprs.rounds(expr, operand):
            return self._operand(operand, least)
        if self.analysis.varies(operand):
            return f"{self.function('rounded', expr.dtype)}({self.value(operand)[0]})"
        scalar = self.exprs.call("rounded", expr.dtype, self.exprs.text(operand))
        return scalar if expr.dtype in _PLAIN else f"{self.function('splat', expr.dtype)}({scalar})"

    def _extreme(self, expr: Binary) -> str:
        """With a number that is no NaN one comparison is enough."""
        for number, other in ((expr.right, expr.left), (expr.left, expr.right)):
            if isinstance(number, Const) and number.value == number.value:
                name = self.function(f"{expr.op}_number", expr.dtype)
                return f"{name}({self.exprs.text(number)}, {self.argument(other)})"
        return f"{self.function(expr.op, expr.dtype)}({self.argument(expr.left)}, {self.argument(expr.right)})"

    def intrinsic(self, expr: Intrinsic) -> Text:
        first, dtype = expr.args[0], expr.args[0].dtype
        if expr.name in DOTS:
            return f"{self.function(expr.name, expr.dtype)}({', '.join(map(self.argument, expr.args))})", ATOM
        if expr.name == "bit_not":
            return f"~{self.vector(first)}", UNARY
        if expr.name == "pow":
            exponent = expr.args[1]
            assert isinstance(exponent, Const)
            power = POWERS[exponent.value]
            return (f"{self.function(power, dtype)}({self.argument(first)})", ATOM) if power else self.value(first)
        if not dtype.startswith("float") and (expr.name in ROUNDINGS or dtype.startswith("uint")):
            if expr.name != "sign":
                return self.value(first)
        return f"{self.function(expr.name, dtype)}({self.argument(first)})", ATOM

    def select(self, expr: Select) -> Text:
        then, otherwise = expr.then, expr.otherwise
        if self.analysis.keeps_branch(expr):
            cond = self.exprs.text(expr.cond, TERNARY + 1)
            return f"{cond} ? {self.vector(then)} : {self.vector(otherwise)}", TERNARY
        mask = self.mask(expr.cond, 8 * dtype_bytes(expr.dtype))
        sides = f"{self.argument(then)}, {self.argument(otherwise)}"
        return f"{self.function('select', expr.dtype)}({mask}, {sides})", ATOM

    def cast(self, expr: Cast) -> Text:
        source, dtype = expr.value.dtype, expr.dtype
        kind = self.type(dtype)
        if source == "bool":
            mask = f"({self.mask(expr.value, 8 * dtype_bytes(dtype))} & 1)"
            return (f"__builtin_convertvector({mask}, {kind})", ATOM)
        text = self.value(expr.value)[0]
        if "bfloat16" in (source, dtype):
            return f"{self.function('to_bf16' if dtype == 'bfloat16' else 'from_bf16', source)}({text})", ATOM
        if source.startswith("float") and dtype_bytes(dtype) < 4:  # as C converts its scalars
            text = f"__builtin_convertvector({text}, {self.type('int32')})"
        return f"__builtin_convertvector({text}, {kind})", ATOM

    def load(self, expr: Load) -> Text:
        return self._load(expr, expr.dtype), ATOM

    def _load(self, expr: Load, dtype: str) -> str:
        if is_vector_variable(self.exprs, expr.tensor, expr.indices, self.lane):
            return self.exprs.names(expr.tensor, expr.tensor.name)
        place = self.address(expr.tensor, expr.indices)
        step = self.analysis.step(expr)
        assert step is not None  # another load is done lane by lane
        if step != 1:
            items = [f"({place})[{step * k}]" for k in range(self.count)]
            items += ["0"] * (self.lanes - self.count)  # which OpenCL C does not add by itself
            return f"({self.type(dtype)}){{{', '.join(items)}}}"
        if dtype != expr.dtype:
            place = self.bytes_at(f"({place})")
        if self.count == self.lanes:
            return f"{self.function('load', dtype)}({place})"
        return f"{self.function('load_first', dtype)}({place}, {self.count})"

    def bytes_at(self, place: str, const: str = "const ") -> str:
        """*place*, an atom at which bools lie, as the place of their bytes."""
        return f"({const}uint8_t *){place}"

    def address(self, tensor: Tensor, indices: Sequence[PrimExpr]) -> str:
        """The address of lane 0."""
        flat = self.exprs.flat(tensor, tuple(indices))
        offset = self.exprs.text(self.exprs.simplify.rebuild(flat.without(self.lane)), 13)
        return f"{self.exprs.names(tensor, tensor.name)} + {offset}"

    def index(self, expr: Index) -> Text:
        """The lane itself."""
        return f"({self.type(INDEX)}){{{', '.join(map(str, range(self.lanes)))}}}", ATOM

    def _bind(self, node: PrimExpr, ctype: str, text: str) -> None:
        name = self.exprs.names.fresh("t")
        self.line(f"const {ctype} {name} = {text};")
        self.bound[id(node)] = name

    def _bind_shared(self, root: PrimExpr) -> None:
        """Declare what *root* uses more than once and always evaluates."""
        for node in self._shared(root):
            if not self.analysis.varies(node):
                self._bind(node, self.exprs.language.types[node.dtype], self.exprs.text(node))
                self.exprs.bound[id(node)] = self.bound[id(node)]
                self.uniform.append(id(node))
            elif node.dtype == "bool":
                bits = self._natural(node)
                self._bind(node, self.type(f"int{bits}"), self.mask(node, bits))
            else:
                self._bind(node, self.type(node.dtype), self.value(node)[0])

    def _shared(self, root: PrimExpr) -> list[PrimExpr]:
        uses: dict[int, int] = {}
        order: list[PrimExpr] = []
        stack: list[tuple[PrimExpr, bool]] = [(root, False)]
        while stack:
            node, expanded = stack.pop()
            if expanded:
                order.append(node)
                continue
            uses[id(node)] = uses.get(id(node), 0) + 1
            if uses[id(node)] == 1:
                stack.append((node, True))
                stack.extend((e, False) for e in reversed(self._evaluated(node)))
        return [n for n in order if uses[id(n)] > 1 and self._has_work(n)]

    def _evaluated(self, node: PrimExpr) -> tuple[PrimExpr, ...]:
        """The operands whose text stands in that of *node* and that are evaluated with it."""
        if isinstance(node, Load):
            return ()
        varies = self.analysis.varies(node)
        if varies and not self.analysis.direct(node):
            return ()
        if isinstance(node, Select) and (not varies or self.analysis.keeps_branch(node)):
            return (node.cond,)
        if isinstance(node, Binary) and node.op in LOGIC and not varies:
            return (node.left,)
        return operands(node)

    def _has_work(self, node: PrimExpr) -> bool:
        if isinstance(node, Load):
            return not is_vector_variable(self.exprs, node.tensor, node.indices, self.lane) and bool(node.tensor.shape)
        return not isinstance(node, Const | Index | Size) and node.dtype != INDEX


def is_vector_variable(exprs: ExprWriter, tensor: Tensor, indices: Sequence[PrimExpr], lane: Index) -> bool:
    """Whether ``tensor[indices]`` for all lanes is a vector variable as a whole."""
    return tensor in exprs.registers and len(indices) == 1 and indices[0] is lane


def _unscheduled(writer: VectorExprWriter, expr: PrimExpr) -> Text:
    raise InternalError(f"a {type(expr).__name__} must be scheduled before it is written")


_RULES: dict[type, Callable[..., Text]] = {
    Binary: VectorExprWriter.binary,
    Intrinsic: VectorExprWriter.intrinsic,
    Select: VectorExprWriter.select,
    Cast: VectorExprWriter.cast,
    Load: VectorExprWriter.load,
    Index: VectorExprWriter.index,
    Reduce: _unscheduled,
}
_MASK_RULES: dict[type, Callable[..., str]] = {
    Binary: VectorExprWriter._mask_binary,
    Intrinsic: VectorExprWriter._mask_intrinsic,
    Select: VectorExprWriter._mask_select,
    Cast: VectorExprWriter._mask_cast,
}
