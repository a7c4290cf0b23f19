"""What lies in memory as bits becomes integers: numbers are made of the bits where they are read; bfloat16 widened.

float16, bfloat16, the floats of 8 and 4 bits and the integers of 4 and 2 bits have no arithmetic in C or in OpenCL. A
float is a float32 between its load and its store, an integer an int32, and every operation rounds (or wraps) its
result as numpy's dtype of that name does. What only moves (a load, a choice) keeps its bits. Where no such dtype
occurs the Program stays the same object. A *typed* one is a type of the language without arithmetic of its own: it lies
in memory as itself, and casts take the place of the conversions of bits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

import numpy as np

from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import with_body, with_stages
from byoc.errors import InternalError
from byoc.ir.types import STORED
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.te import PrimExpr, Tensor, placeholder
from byoc.te.expr import OF_BITS, Binary, Cast, Const, Intrinsic, Reduce, Select, binary, cast
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes

_EXACT = frozenset(["min", "max", "abs", "sign", "floor", "ceil", "round", "trunc"])  # their result is a number of it
_MASKS = {"int4": 15, "uint4": 15, "int2": 3, "uint2": 3}


def as_stored(program: Program, kept: Collection[str] = (), typed: Collection[str] = ()) -> Program:
    """*program* over the integers that hold its elements, but for the dtypes *kept*, which its language has, and those
    that are *typed* there.
    """
    dtypes = frozenset(STORED) - frozenset(kept)
    stages = [s for group in program.groups for s in group.stages]
    tensors = [*program.inputs, *(t for t, _ in program.constants), *stages]
    nodes = (n for s in stages for n in unique_nodes(s.element))
    if not any(value.dtype in dtypes for values in (tensors, nodes) for value in values):
        return program
    new = {t: _renamed(t, dtypes - frozenset(typed)) for t in tensors}
    for stage in stages:
        new[stage].body = _Stored(dtypes, new, typed).stored(stage.element)
    return dataclasses.replace(
        program,
        inputs=tuple(new[t] for t in program.inputs),
        constants=tuple((new[t], data) for t, data in program.constants),
        outputs=tuple(new[t] for t in program.outputs),
        groups=tuple(
            dataclasses.replace(g, stages=tuple(new[s] for s in g.stages), local=tuple(new[s] for s in g.local))
            for g in program.groups
        ),
    )


def _renamed(tensor: Tensor, dtypes: Collection[str]) -> Tensor:
    dtype = STORED[tensor.dtype] if tensor.dtype in dtypes else tensor.dtype
    return Tensor(tensor.name, tensor.shape, dtype, tensor.axes, None, tensor.tag, tensor.meta, tensor.known)


class _Stored:
    """The expressions of one stage: ``stored`` as they lie in memory, ``number`` as arithmetic reads them."""

    def __init__(self, dtypes: Collection[str], new: dict[Tensor, Tensor], typed: Collection[str] = ()):
        self.dtypes, self.new, self.typed = dtypes, new, typed
        self._known: dict[tuple[str, int], PrimExpr] = {}
        self._roots: list[PrimExpr] = []  # whose identities are the keys above

    def stored(self, expr: PrimExpr) -> PrimExpr:
        """*expr* as what holds it: itself where its dtype is no such one."""
        return self._once("stored", expr, self._stored if expr.dtype in self.dtypes else self._plain)

    def number(self, expr: PrimExpr) -> PrimExpr:
        """*expr* as the number that it is: a float32 or an int32 for what is stored as bits."""
        return self._once("number", expr, self._number if expr.dtype in self.dtypes else self._plain)

    def _once(self, kind: str, expr: PrimExpr, make: Callable[[PrimExpr], PrimExpr]) -> PrimExpr:
        key = (kind if expr.dtype in self.dtypes else "", id(expr))
        if key not in self._known:
            self._roots.append(expr)
            self._known[key] = make(expr)
        return self._known[key]

    def _plain(self, expr: PrimExpr) -> PrimExpr:
        """An expression of a dtype that stays, over operands that may not."""

        def leaf(e: PrimExpr) -> PrimExpr | None:
            if e is not expr:
                return self.number(e)
            if isinstance(e, Load):
                return e.of(self.new[e.tensor], [self.number(i) for i in e.indices])
            if isinstance(e, Intrinsic) and e.name == "bits" and e.args[0].dtype in self.dtypes:
                bits = self.stored(e.args[0])
                return Intrinsic("bits", [bits]) if bits.dtype in self.typed else bits
            if isinstance(e, Cast) and e.dtype == "bool":
                return binary("ne", self.number(e.value), 0)
            return None

        return map_expr(expr, leaf)

    def _stored(self, expr: PrimExpr) -> PrimExpr:
        if isinstance(expr, Load):
            if expr.is_word:
                raise InternalError(f"a word of {expr.tensor.dtype} is taken after its elements are bits")
            return Load(self.new[expr.tensor], [self.number(i) for i in expr.indices])
        if isinstance(expr, Const):
            return expr if expr.dtype in self.typed else Const(_const_bits(expr), STORED[expr.dtype])
        if isinstance(expr, Select):
            return Select(self.number(expr.cond), self.stored(expr.then), self.stored(expr.otherwise))
        if isinstance(expr, Cast):
            return self._bits(expr.dtype, self.number(expr.value))
        if isinstance(expr, Intrinsic) and expr.name in OF_BITS:
            bits = self.number(expr.args[0])
            return Intrinsic(expr.name, [bits]) if expr.dtype in self.typed else bits
        return self._bits(expr.dtype, self._computed(expr))

    def _bits(self, dtype: str, value: PrimExpr) -> PrimExpr:
        """What holds the number *value* as a *dtype*."""
        return cast(dtype, value) if dtype in self.typed else _bits_of(dtype, value)

    def _number(self, expr: PrimExpr) -> PrimExpr:
        if isinstance(expr, Const):
            value = numpy_dtype(expr.dtype).type(expr.value)
            wide = _wide(expr.dtype)
            return Const(int(value) if wide == "int32" else float(value), wide)
        computes = isinstance(expr, Binary | Reduce) or (isinstance(expr, Intrinsic) and expr.name not in OF_BITS)
        if computes and (_name(expr) in _EXACT or (isinstance(expr, Reduce) and expr.kind == "sum")):
            return self._computed(expr)  # a sum is rounded with what is made of it: a mean of many is no infinity
        stored = self.stored(expr)
        return cast(_wide(expr.dtype), stored) if expr.dtype in self.typed else _number_of(expr.dtype, stored)

    def _computed(self, expr: PrimExpr) -> PrimExpr:
        """An operation on the numbers, before its result is rounded."""
        if isinstance(expr, Binary):
            return binary(expr.op, self.number(expr.left), self.number(expr.right))
        if isinstance(expr, Intrinsic):
            return Intrinsic(expr.name, [self.number(a) for a in expr.args])
        if isinstance(expr, Reduce):
            return Reduce(expr.kind, self._term(expr.body) if expr.kind == "sum" else self.number(expr.body), expr.axes)
        raise InternalError(f"a {type(expr).__name__} gives no {expr.dtype}")

    def _term(self, expr: PrimExpr) -> PrimExpr:
        """What a sum adds: a product as it is, for sums of products are rounded once, as a whole."""
        if isinstance(expr, Select):
            return Select(self.number(expr.cond), self._term(expr.then), self._term(expr.otherwise))
        if isinstance(expr, Binary) and expr.op == "mul":
            return self._computed(expr)
        return self.number(expr)


def _name(expr: PrimExpr) -> str:
    if isinstance(expr, Binary):
        return expr.op
    if isinstance(expr, Reduce):
        return expr.kind
    assert isinstance(expr, Intrinsic)
    return expr.name


def _wide(dtype: str) -> str:
    return "int32" if dtype in _MASKS else "float32"


def _const_bits(expr: Const) -> int:
    value = np.array(expr.value).astype(numpy_dtype(expr.dtype))
    return int(value.view(STORED[expr.dtype]))


def _bits_of(dtype: str, value: PrimExpr) -> PrimExpr:
    """The bits of the number *value*, of any dtype, as a *dtype*: rounded to nearest, an integer wrapped."""
    mask = _MASKS.get(dtype)
    if mask is not None:
        return cast("uint8", binary("bit_and", cast("int32", value), mask))
    direct = dtype == "float16" and value.dtype == "float64"  # numpy rounds this once, others by way of float32
    return Intrinsic(f"to_{dtype}", [value if direct else cast("float32", value)])


def _number_of(dtype: str, bits: PrimExpr) -> PrimExpr:
    mask = _MASKS.get(dtype)
    if mask is None:
        return Intrinsic(f"from_{dtype}", [bits])
    low = binary("bit_and", cast("int32", bits), mask)
    if dtype.startswith("u"):
        return low
    sign = (mask + 1) // 2
    return binary("sub", binary("bit_xor", low, sign), sign)


NARROW, WIDE = "bfloat16", "float32"


def stored_binary(op: str, dtype: str) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Two elements of *dtype* as they lie in memory, and *op* of them as it does, rounded once; bfloat16 as itself."""
    held = dtype if dtype == NARROW else STORED.get(dtype, dtype)
    left, right = (Load(placeholder((), held, name), ()) for name in "ab")
    if held != dtype:
        return left, right, _bits_of(dtype, binary(op, _number_of(dtype, left), _number_of(dtype, right)))
    return left, right, widened(binary(op, left, right))


def widen_arithmetic(program: Program) -> Program:
    """*program* with no operation on bfloat16 but conversions, choices and moves; sums are rounded once."""
    if not any(_computes(s) for g in program.groups for s in g.stages):
        return program

    def change(stage: Tensor, renamed: Tensor) -> list[Tensor]:
        return [with_body(renamed, widened(renamed.body))] if renamed.body is not None else [renamed]

    return with_stages(program, change)


def _computes(stage: Tensor) -> bool:
    return stage.body is not None and any(_is_narrow(n) for n in unique_nodes(stage.body))


def _is_narrow(expr: PrimExpr) -> bool:
    """Whether *expr* is an operation on bfloat16."""
    if isinstance(expr, Binary):
        return expr.left.dtype == NARROW
    if isinstance(expr, Intrinsic):
        return expr.args[0].dtype == NARROW and expr.name != "bits"
    return isinstance(expr, Reduce) and expr.body.dtype == NARROW


def widened(expr: PrimExpr) -> PrimExpr:
    """*expr* with its operations on bfloat16 between conversions."""

    def leaf(e: PrimExpr) -> PrimExpr | None:
        if not _is_narrow(e):
            return None
        if isinstance(e, Binary):
            made: PrimExpr = binary(e.op, cast(WIDE, widened(e.left)), cast(WIDE, widened(e.right)))
        elif isinstance(e, Intrinsic):
            made = Intrinsic(e.name, [cast(WIDE, widened(a)) for a in e.args])
        else:
            assert isinstance(e, Reduce)
            made = Reduce(e.kind, cast(WIDE, widened(e.body)), e.axes)
        return cast(e.dtype, made)

    return map_expr(expr, leaf)
