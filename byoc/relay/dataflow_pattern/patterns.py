"""The pattern language: what a part of a graph may look like. Source: ``relay.dataflow_pattern``.

Patterns are immutable and compare by identity: one pattern object that is used twice must match one and the same
expression, two separate wildcards may match the same or different ones. Only :meth:`WildcardPattern.redirect_to`
changes a pattern after it was made; it is how a pattern refers to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from byoc.errors import UserError
from byoc.ir.attrs import freeze
from byoc.ir.expr import RelayExpr
from byoc.ir.op import get_op
from byoc.ir.registry import get_global_func
from byoc.ir.types import Dim, Type

Check = Callable[[RelayExpr], object]


def _pattern(value: object, what: str) -> DFPattern:
    if not isinstance(value, DFPattern):
        raise UserError(f"{what} must be a pattern, got {type(value).__name__}: {value!r}")
    return value


def _patterns(values: Sequence[object], what: str) -> tuple[DFPattern, ...]:
    return tuple(_pattern(value, f"{what} {index}") for index, value in enumerate(values))


def _accept(pre: RelayExpr) -> bool:
    return True


class DFPattern:
    """The root of all patterns. Calling one makes the pattern of a call: ``is_op("add")(wildcard(), wildcard())``.

    Its text is Relay's: ``CallPatternNode(Op(add), [*, ConstantPattern()])``.
    """

    __slots__ = ("facts",)

    facts: object  # what is found out about it when it is first tried

    def __repr__(self) -> str:
        return str(get_global_func("relay.dataflow_pattern.text")(self))

    def __call__(self, *args: DFPattern | None) -> CallPattern:
        """A call of what this matches on *args*; a single None stands for any arguments."""
        return CallPattern(self, None if len(args) == 1 and args[0] is None else args)

    def __or__(self, other: DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other: DFPattern) -> CallPattern:
        return is_op("add")(self, other)

    def __sub__(self, other: DFPattern) -> CallPattern:
        return is_op("subtract")(self, other)

    def __mul__(self, other: DFPattern) -> CallPattern:
        return is_op("multiply")(self, other)

    def __truediv__(self, other: DFPattern) -> CallPattern:
        return is_op("divide")(self, other)

    def has_attr(self, attrs: Mapping[str, object]) -> AttrPattern:
        """This, with these attributes: of a call, of an operator (``TOpPattern``) or of a function."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> TypePattern:
        """This, of exactly that type."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """This, a tensor of that dtype."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[Dim]) -> ShapePattern:
        """This, a tensor of that shape."""
        return ShapePattern(self, shape)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> DFPattern:
        """This, or *option_constructor* of this: ``conv.optional(lambda x: is_op("nn.relu")(x))``."""
        return self | option_constructor(self)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """This as the child that *parent* dominates, every node between them matching *path* (any by default)."""
        return DominatorPattern(parent, wildcard() if path is None else path, self)

    def match(self, expr: RelayExpr) -> bool:
        """True when *expr* looks like this pattern."""
        return bool(get_global_func("relay.dataflow_pattern.match")(self, expr))

    def partition(
        self, expr: RelayExpr, attrs: Mapping[str, object] | None = None, check: Check = _accept
    ) -> RelayExpr:
        """*expr* with each disjoint match made a function, called in its place, with the attributes *attrs*."""
        made: RelayExpr = get_global_func("relay.dataflow_pattern.partition")(self, expr, attrs, check)
        return made


class WildcardPattern(DFPattern):
    """Anything; or, after :meth:`redirect_to`, what another pattern matches."""

    __slots__ = ("pattern",)

    def __init__(self) -> None:
        self.pattern: DFPattern | None = None

    def redirect_to(self, pattern: DFPattern) -> None:
        """Stand for *pattern* from now on, which may contain this wildcard: a recursive pattern."""
        self.pattern = _pattern(pattern, "what a wildcard is redirected to")


class ExprPattern(DFPattern):
    """An expression that is structurally equal to *expr*."""

    __slots__ = ("expr",)

    def __init__(self, expr: RelayExpr):
        if not isinstance(expr, RelayExpr):
            raise UserError(f"is_expr takes an expression, got {type(expr).__name__}: {expr!r}")
        self.expr = expr


class VarPattern(DFPattern):
    """A variable, of that name unless the name is empty."""

    __slots__ = ("name",)

    def __init__(self, name_hint: str = ""):
        self.name = name_hint


class ConstantPattern(DFPattern):
    """A constant."""

    __slots__ = ()


class CallPattern(DFPattern):
    """A call; ``args=None`` leaves the arguments open, whatever their number."""

    __slots__ = ("args", "op")

    def __init__(self, op: DFPattern, args: Sequence[DFPattern | None] | None):
        self.op = _pattern(op, "the callee of a call pattern")
        self.args = None if args is None else _patterns(args, "argument")


class FunctionPattern(DFPattern):
    """A function; ``params=None`` leaves the parameters open."""

    __slots__ = ("body", "params")

    def __init__(self, params: Sequence[DFPattern] | None, body: DFPattern):
        self.params = None if params is None else _patterns(params, "parameter")
        self.body = _pattern(body, "the body of a function pattern")


class IfPattern(DFPattern):
    """An if."""

    __slots__ = ("cond", "false_branch", "true_branch")

    def __init__(self, cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern):
        self.cond = _pattern(cond, "the condition")
        self.true_branch = _pattern(true_branch, "the true branch")
        self.false_branch = _pattern(false_branch, "the false branch")


class LetPattern(DFPattern):
    """A let."""

    __slots__ = ("body", "value", "var")

    def __init__(self, var: DFPattern, value: DFPattern, body: DFPattern):
        self.var = _pattern(var, "the variable")
        self.value = _pattern(value, "the value")
        self.body = _pattern(body, "the body")


class TuplePattern(DFPattern):
    """A tuple; ``fields=None`` leaves the fields open."""

    __slots__ = ("fields",)

    def __init__(self, fields: Sequence[DFPattern] | None):
        self.fields = None if fields is None else _patterns(fields, "field")


class TupleGetItemPattern(DFPattern):
    """A projection of a tuple; no index, or -1, is any index."""

    __slots__ = ("index", "tuple")

    def __init__(self, tuple_value: DFPattern, index: int | None = None):
        self.tuple = _pattern(tuple_value, "the tuple of a projection")
        self.index = -1 if index is None else int(index)


class AltPattern(DFPattern):
    """*left*, or else *right*."""

    __slots__ = ("left", "right")

    def __init__(self, left: DFPattern, right: DFPattern):
        self.left = _pattern(left, "the left alternative")
        self.right = _pattern(right, "the right alternative")


class TypePattern(DFPattern):
    """What *pattern* matches, of type *ttype*."""

    __slots__ = ("pattern", "type")

    def __init__(self, pattern: DFPattern, ttype: Type):
        if not isinstance(ttype, Type):
            raise UserError(f"has_type takes a type, got {type(ttype).__name__}: {ttype!r}")
        self.pattern = _pattern(pattern, "what has a type")
        self.type = ttype


class DataTypePattern(DFPattern):
    """What *pattern* matches, a tensor of dtype *dtype*."""

    __slots__ = ("dtype", "pattern")

    def __init__(self, pattern: DFPattern, dtype: str):
        self.pattern = _pattern(pattern, "what has a dtype")
        self.dtype = str(dtype)


class ShapePattern(DFPattern):
    """What *pattern* matches, a tensor of shape *shape*."""

    __slots__ = ("pattern", "shape")

    def __init__(self, pattern: DFPattern, shape: Sequence[Dim]):
        self.pattern = _pattern(pattern, "what has a shape")
        self.shape = tuple(shape)


class AttrPattern(DFPattern):
    """What *pattern* matches, with attributes of these values."""

    __slots__ = ("attrs", "pattern")

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, object]):
        if not isinstance(attrs, Mapping):
            raise UserError(f"has_attr takes a mapping from names to values, got {type(attrs).__name__}: {attrs!r}")
        self.pattern = _pattern(pattern, "what has attributes")
        self.attrs = {str(name): freeze(value) for name, value in attrs.items()}


class DominatorPattern(DFPattern):
    """*child*, from which every path up stays within *path* until it reaches *parent*, which dominates it."""

    __slots__ = ("child", "parent", "path")

    def __init__(self, parent: DFPattern, path: DFPattern, child: DFPattern):
        self.parent = _pattern(parent, "the parent")
        self.path = _pattern(path, "the path")
        self.child = _pattern(child, "the child")


def is_op(op_name: str) -> ExprPattern:
    """The operator *op_name*. Raises RegistryError with the nearest names."""
    return ExprPattern(get_op(op_name))


def wildcard() -> WildcardPattern:
    """A new pattern that matches anything."""
    return WildcardPattern()
