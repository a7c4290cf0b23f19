"""The text of tensor expressions in a language of C's family, with no more parentheses than are needed.

Requires simplified expressions without Reduce. Records which helpers the text calls. Loads become row-major flat
indices; integer division is plain where its operands cannot be negative, and a helper call elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

from byoc.codegen.kernel.polynomial import Polynomial
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.kernel.spelling import ATOM, OPERATORS, TERNARY, UNARY, WIDE_UNSIGNED, Language, kind_of, short_name
from byoc.codegen.kernel.writer import Names
from byoc.errors import InternalError, UnsupportedError
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr, Size, Tensor
from byoc.te.expr import COMPARISONS, INDEX, Binary, Cast, Checked, Const, Intrinsic, Reduce, Select
from byoc.te.tensor import Load
from byoc.te.walk import operands

Text = tuple[str, int]  # with the precedence of its outermost operator
_NARROW = frozenset(["int8", "int16", "uint8", "uint16"])  # C computes these in int: wrap after each operation
_FLOATS = frozenset(["float32", "float64"])
# the unsigned type of each in which a product cannot overflow: uint16 itself becomes an int, which 65535 ** 2 overflows
_WRAPPING = {"int32": "uint32", "int64": "uint64", "uint16": "uint32"}
_BIT_LOGIC = {"bit_and": "and", "bit_or": "or", "bit_xor": "ne"}


class ExprWriter:
    """Writes expressions; ``helpers`` collects ``(helper, dtype)`` in the order of first use.

    ``checks`` are the checks of indices that may occur; each keeps what it finds in a variable of its number, for
    which ``extents`` has the text of its dimension once it is written.
    """

    def __init__(self, language: Language, names: Names, simplify: Simplifier):
        self.language, self.names, self.simplify = language, names, simplify
        self.helpers: dict[tuple[str, str], None] = {}
        self.locals: set[Tensor] = set()
        self.registers: set[Tensor] = set()  # those locals that are one vector, not an array
        self.bound: dict[int, str] = {}
        self._reading: dict[PrimExpr, bool] = {}
        self.steps: set[int] = set()  # the additions that add a term to a sum
        self.apart = language.contracts  # whether other products are kept from being contracted
        self.checks: tuple[str, ...] = ()
        self.extents: dict[int, str] = {}

    def text(self, expr: PrimExpr, least: int = 0) -> str:
        """*expr*, in parentheses if its operator binds weaker than *least*."""
        bound = self.bound.get(id(expr))
        if bound is not None:
            return bound
        text, precedence = _RULES[type(expr)](self, expr)
        return f"({text})" if precedence < least else text

    def flat(self, tensor: Tensor, indices: tuple[PrimExpr, ...]) -> Polynomial:
        """The position of an element as a polynomial."""
        return self.simplify.flat_index(tensor, indices)

    def element(self, tensor: Tensor, indices: tuple[PrimExpr, ...]) -> str:
        """The place of an element: a name for a local scalar, else an array subscript."""
        name = self.names(tensor, tensor.name)
        if tensor in self.locals and not tensor.shape:
            return name
        return f"{name}[{self.text(self.simplify.rebuild(self.flat(tensor, indices)))}]"

    def has_address(self, tensor: Tensor) -> bool:
        """Whether the elements of *tensor* are places in memory, neighbours side by side."""
        return True

    def call(self, function: str, dtype: str, *args: str) -> str:
        """A call of *function* on texts. Raises UnsupportedError where the language has none for *dtype*."""
        spelling = self.language.functions.get((function, kind_of(dtype)))
        if spelling is None:
            raise UnsupportedError(f"no code is generated for {function} of {dtype}")
        if "{T}" in spelling:
            self.helpers.setdefault((spelling.split("_{T}")[0], dtype))
        return spelling.format(*args, T=short_name(dtype))

    def mark_steps(self, value: PrimExpr, target: Tensor) -> None:
        """Note the additions in *value*, simplified and to be stored in *target*, that add terms to what it has."""
        while isinstance(value, Binary) and value.op == "add" and value.dtype in _FLOATS:
            self.steps.add(id(value))
            value = value.right if isinstance(value.right, Load) and value.right.tensor is target else value.left
        if not (isinstance(value, Load) and value.tensor is target):
            self.steps.clear()

    def rounds(self, expr: Binary, operand: PrimExpr) -> bool:
        """Whether *operand* is a product that is rounded before *expr* adds it or takes it away."""
        if not self.apart or not isinstance(operand, Binary) or operand.op != "mul":
            return False
        return expr.op in ("add", "sub") and expr.dtype in _FLOATS and id(expr) not in self.steps

    def _term(self, expr: Binary, operand: PrimExpr, least: int) -> str:
        if self.rounds(expr, operand):
            return self.call("rounded", expr.dtype, self.text(operand))
        return self.text(operand, least)

    def _fused(self, expr: Binary) -> str | None:
        """One step of a sum of products, where the language has a function for it."""
        if not self.language.steps or id(expr) not in self.steps:
            return None
        for product, other in ((expr.right, expr.left), (expr.left, expr.right)):
            if isinstance(product, Binary) and product.op == "mul" and id(product) not in self.bound:
                return self.call("step", expr.dtype, *map(self.text, (other, product.left, product.right)))
        return None

    def const(self, expr: Const) -> Text:
        text = self.language.literal(expr.value, expr.dtype)
        return text, UNARY if text.startswith("-") else ATOM

    def binary(self, expr: Binary) -> Text:
        op, dtype = expr.op, expr.left.dtype
        if dtype == "bool" and op in _BIT_LOGIC:
            op = _BIT_LOGIC[op]
        if dtype == "bool" and op in ("add", "mul"):
            op = {"add": "or", "mul": "and"}[op]
        if op in ("min", "max", "shift_left", "shift_right"):
            return self.call(op, dtype, self.text(expr.left), self.text(expr.right)), ATOM
        if op in ("div", "mod") and not self._plain_division(expr):
            return self.call(f"floor{op}", dtype, self.text(expr.left), self.text(expr.right)), ATOM
        symbol, precedence = OPERATORS[op]
        # operands of bit and comparison operators are bracketed for gcc's -Wparentheses
        inner = precedence if precedence >= 12 else 12 if op in COMPARISONS else ATOM - 1
        if op in ("and", "or"):
            inner = 9 if op == "and" else 5 + 1
        right = inner + 1 if precedence >= 12 else inner
        if isinstance(expr.left, Binary) and expr.left.op == op and op in ("and", "or"):
            inner = precedence
        fused = self._fused(expr)
        if fused is not None:
            return fused, ATOM
        unsigned = self._unsigned(expr)
        if unsigned is not None:
            cast = f"({self.language.types[unsigned]})"
            left, other = self.text(expr.left, UNARY), self.text(expr.right, UNARY)
            return f"({self.language.types[dtype]})({cast}{left} {symbol} {cast}{other})", UNARY
        text = f"{self._term(expr, expr.left, inner)} {symbol} {self._term(expr, expr.right, right)}"
        if dtype in _NARROW and expr.dtype in _NARROW:
            return f"({self.language.types[dtype]})({text})", UNARY
        return text, precedence

    def _unsigned(self, expr: Binary) -> str | None:
        """The type whose arithmetic wraps, for what may overflow where signed numbers must not; else None.

        Positions never overflow, so that what is made of indices and sizes alone stays as it is.
        """
        wide = _WRAPPING.get(expr.dtype)
        if self.language.wraps or wide is None or expr.op not in ("add", "sub", "mul"):
            return None
        return wide if expr.dtype != INDEX or self._reads(expr) else None

    def _reads(self, expr: PrimExpr) -> bool:
        """True when an element of a tensor goes into *expr*."""
        found = self._reading.get(expr)
        if found is None:
            found = self._reading[expr] = isinstance(expr, Load) or any(self._reads(e) for e in operands(expr))
        return found

    def _plain_division(self, expr: Binary) -> bool:
        if expr.left.dtype.startswith("float"):
            return expr.op == "div"
        if expr.left.dtype != INDEX:
            return False
        return self.simplify.bounds(expr.left)[0] >= 0 and _never_zero(expr.right, self.simplify)

    def cast(self, expr: Cast) -> Text:
        if expr.dtype == "bool":
            return f"{self.text(expr.value, 10)} != 0", 9
        if "bfloat16" in (expr.dtype, expr.value.dtype):
            return self._bfloat16(expr.dtype, expr.value)
        if expr.dtype in WIDE_UNSIGNED and expr.value.dtype.startswith("float"):
            return self.call(f"to_{expr.dtype}", expr.value.dtype, self.text(expr.value)), ATOM
        return f"({self.language.types[expr.dtype]}){self.text(expr.value, UNARY)}", UNARY

    def _bfloat16(self, dtype: str, value: PrimExpr) -> Text:
        """A conversion from or to bfloat16, which goes through float32."""
        if value.dtype == "bfloat16" and dtype == "float32":
            return self.call("from_bf16", value.dtype, self.text(value)), ATOM
        if value.dtype == "bfloat16":
            return self.cast(Cast(dtype, Cast("float32", value)))
        wide = value if value.dtype == "float32" else Cast("float32", value)
        return self.call("to_bf16", "float32", self.text(wide)), ATOM

    def select(self, expr: Select) -> Text:
        cond, then = self.text(expr.cond, TERNARY + 1), self.text(expr.then, TERNARY + 1)
        return f"{cond} ? {then} : {self.text(expr.otherwise, TERNARY)}", TERNARY

    def intrinsic(self, expr: Intrinsic) -> Text:
        dtype = expr.args[0].dtype
        text = self.call(expr.name, dtype, *(self.text(a) for a in expr.args))
        if dtype in _NARROW and expr.name == "bit_not":
            return f"({self.language.types[dtype]}){text}", UNARY
        return text, ATOM if text[:1] not in "!~-" else UNARY

    def checked(self, expr: Checked) -> Text:
        """The position, with the index kept in the variable of its check where it is outside."""
        number, extent = self.checks.index(expr.check), self.text(expr.extent)
        self.extents[number] = extent
        return self.call("check_index", INDEX, self.text(expr.index), extent, outside_name(number)), ATOM

    def load(self, expr: Load) -> Text:
        element = self.element(expr.tensor, expr.indices)
        wide = expr.is_word and dtype_bytes(expr.dtype) > dtype_bytes(expr.tensor.dtype)
        return (self.call("word", expr.tensor.dtype, element) if wide else element), ATOM


def outside_name(number: int) -> str:
    """The variable that keeps what a check found, by the number of the check among those of the function."""
    return f"outside_{number}"


def check_name(number: int) -> str:
    """The parameter that says which check of the program that is."""
    return f"check_{number}"


def _never_zero(expr: PrimExpr, simplify: Simplifier) -> bool:
    """A constant above 0, or a size: what divides by a size runs only where there is an element, so it is not 0."""
    if isinstance(expr, Const):
        return expr.value > 0
    poly = simplify.polynomial(expr)
    return poly.constant >= 0 and all(
        c > 0 and all(isinstance(poly.atoms[k], Size) for k in m) for m, c in poly.terms.items()
    )


def _no_reduce(writer: ExprWriter, expr: PrimExpr) -> Text:
    raise InternalError(f"a {type(expr).__name__} must be scheduled before it is written")


_RULES: dict[type, Callable[..., Text]] = {
    Reduce: _no_reduce,
    Const: ExprWriter.const,
    Index: lambda w, e: (w.names(e, e.name), ATOM),
    Size: lambda w, e: (w.names(e, e.name), ATOM),
    Binary: ExprWriter.binary,
    Cast: ExprWriter.cast,
    Select: ExprWriter.select,
    Checked: ExprWriter.checked,
    Intrinsic: ExprWriter.intrinsic,
    Load: ExprWriter.load,
}


def shared_nodes(root: PrimExpr) -> list[PrimExpr]:
    """What *root* uses several times and always evaluates, innermost first: worth a variable of its own."""
    uses: dict[int, int] = {}
    always: set[int] = set()
    order: list[PrimExpr] = []
    stack: list[tuple[PrimExpr, bool, bool]] = [(root, True, False)]
    while stack:
        node, certain, expanded = stack.pop()
        if expanded:
            order.append(node)
            continue
        uses[id(node)] = uses.get(id(node), 0) + 1
        first_certain = certain and id(node) not in always
        if certain:
            always.add(id(node))
        if uses[id(node)] > 1 and not first_certain:
            continue
        if uses[id(node)] == 1:
            stack.append((node, certain, True))
        stack.extend((e, c, False) for e, c in _evaluated(node, certain))
    return [n for n in order if uses[id(n)] > 1 and id(n) in always and _has_work(n)]


def _evaluated(node: PrimExpr, certain: bool) -> list[tuple[PrimExpr, bool]]:
    """The operands of *node* and whether each is evaluated whenever *root* is; indices of loads are left out."""
    if isinstance(node, Load):
        return []
    if isinstance(node, Select):
        return [(node.otherwise, False), (node.then, False), (node.cond, certain)]
    if isinstance(node, Binary) and node.op in ("and", "or"):
        return [(node.right, False), (node.left, certain)]
    return [(e, certain) for e in reversed(operands(node))]


def _has_work(node: PrimExpr) -> bool:
    if isinstance(node, Load):
        return bool(node.tensor.shape)
    return not isinstance(node, Const | Index | Size) and node.dtype != INDEX
