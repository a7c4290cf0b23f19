"""Sums of products of narrow numbers as dot products of words: two bfloat16, or four 8-bit integers, at once.

``sum(f32(a[m, k]) * f32(b[k, n]), k)`` becomes ``sum(dot(a's word at 2 k, b's word at 2 k), k)`` over half as many
``k``: one term is a number of 32 bits on both sides, so that all that is done for float32 (panels, tiles, guards) is
done for words. A constant is brought into words when compiling, what lies in words already is read as it lies, and
else a stage makes the words. An axis that does not fill its last word is filled up with zeros on both sides.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.codegen.c.tiling.blocks import at
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import ProgramConstants, with_body, with_stages
from byoc.codegen.kernel.simplify import Simplifier
from byoc.ir.types import dtype_bytes
from byoc.runtime.core.ndarray import NDArray
from byoc.te import Index, PrimExpr, Tensor, binary, compute, const, if_then_else
from byoc.te.expr import DOTS, Binary, Cast, Const, Intrinsic, Reduce, Select, cast
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, mentions, unique_nodes

WORD = "uint32"
# the dtypes of the factors and of their sum -> what multiplies and adds two words of them
FORMS = {("bfloat16", "bfloat16", "float32"): "dot_bf16", ("uint8", "int8", "int32"): "dot_u8s8"}
MOST_FILLED_UP = 1.5  # by how much more terms an axis may get


@dataclass(frozen=True)
class WordProduct:
    """A sum of products of two loads, as one dot product of words could compute it."""

    reduce: Reduce
    left: Load
    right: Load
    dot: str

    @property
    def terms(self) -> int:
        """The numbers in a word."""
        return dtype_bytes(WORD) // dtype_bytes(self.left.dtype)


def narrow_product(body: PrimExpr) -> WordProduct | None:
    """The one reduction in *body*, where it is a sum of products of narrow numbers in a wider type."""
    found = [n for n in unique_nodes(body) if isinstance(n, Reduce)]
    if len(found) != 1 or found[0].kind != "sum":
        return None
    term = found[0].body
    if not isinstance(term, Binary) or term.op != "mul":
        return None
    loads = [e.value for e in (term.left, term.right) if isinstance(e, Cast) and isinstance(e.value, Load)]
    for left, right in (loads, loads[::-1]) if len(loads) == 2 else ():
        dot = FORMS.get((left.dtype, right.dtype, term.dtype))
        if dot is not None and not left.is_word and not right.is_word:
            return WordProduct(found[0], left, right, dot)
    return None


def use_words(program: Program) -> Program:
    """*program* with its sums of products of narrow numbers over words, where an axis allows it; else itself."""
    return _Words(program).run()


class _Words:
    def __init__(self, program: Program):
        self.program, self.simplify = program, Simplifier()
        self.constants = ProgramConstants(program)
        self.arrays = self.constants.arrays
        self.made: dict[tuple[Tensor, int], Tensor] = {}

    def run(self) -> Program:
        if not any(narrow_product(s.body) for g in self.program.groups for s in g.stages if s.body is not None):
            return self.program
        program = with_stages(self.program, lambda _, stage: self._stages(stage))
        return self.constants.of(program)

    def _stages(self, stage: Tensor) -> list[Tensor]:
        """*stage* over words, after the stages that make words for it."""
        product = None if 0 in stage.shape or stage.body is None else narrow_product(stage.body)
        if product is None:
            return [stage]
        axis = word_axis(product, self.arrays, self.simplify)
        if axis is None:
            return [stage]
        words = Index(axis.name, -(-int(axis.extent) // product.terms))
        made: list[Tensor] = []
        left, right = (self._word(load, axis, words, product, made) for load in (product.left, product.right))
        dot = Intrinsic(product.dot, (left, right, const(0, DOTS[product.dot])))
        axes = [words if a is axis else a for a in product.reduce.axes]
        value = Reduce("sum", dot, axes)
        body = map_expr(stage.element, lambda e: value if e is product.reduce else None)
        return [*made, with_body(stage, body)]

    def _word(self, load: Load, axis: Index, words: Index, product: WordProduct, made: list[Tensor]) -> Load:
        """The word of *load* at *words*; a stage that makes it goes to *made*."""
        constant = load.tensor in self.arrays
        if not constant and _lies_in_words(load, axis, product.terms, self.simplify):
            return Load(load.tensor, [at(i, {axis: words * product.terms}) for i in load.indices], WORD)
        dimension = _dimension(load, axis)
        assert dimension is not None
        if constant:
            tensor = self._constant(load.tensor, dimension, product.terms)
        else:
            tensor = _stage_of_words(load.tensor, dimension, product.terms)
            made.append(tensor)
        return Load(tensor, [words if k == dimension else i for k, i in enumerate(load.indices)])

    def _constant(self, source: Tensor, dimension: int, terms: int) -> Tensor:
        key = source, dimension
        if key not in self.made:
            array = words_of_array(self.arrays[source].numpy(), dimension, terms)
            tensor = Tensor(f"{source.name}_words", array.shape, WORD)
            self.made[key] = tensor
            name = f"{self.constants.names[source]}_words_{len(self.made)}"
            self.constants.add(tensor, name, NDArray(array))
        return self.made[key]


def word_axis(product: WordProduct, constants: Container[Tensor], simplify: Simplifier) -> Index | None:
    """The axis to take in words: the one that needs the fewest stages, and then the longest; None where none can be."""
    found: list[tuple[int, int, Index]] = []
    for axis in product.reduce.axes:
        if not isinstance(axis.extent, int):
            continue
        filled = -(-axis.extent // product.terms) * product.terms
        costs = [_cost(load, axis, product.terms, constants, simplify) for load in (product.left, product.right)]
        if filled <= MOST_FILLED_UP * axis.extent and None not in costs:
            found.append((sum(c for c in costs if c), -axis.extent, axis))
    return min(found, key=lambda item: item[:2])[2] if found else None


def takes_words(stage: Tensor, constants: Container[Tensor]) -> bool:
    """Whether *stage* is a sum of products of narrow numbers that :func:`use_words` takes in words."""
    product = None if stage.body is None else narrow_product(stage.body)
    return product is not None and word_axis(product, constants, Simplifier()) is not None


def _cost(load: Load, axis: Index, terms: int, constants: Container[Tensor], simplify: Simplifier) -> int | None:
    """1 where a stage must make the words of *load* along *axis*, 0 where none must; None where none can."""
    if load.tensor not in constants and _lies_in_words(load, axis, terms, simplify):
        return 0
    return None if _dimension(load, axis) is None else int(load.tensor not in constants)


def _lies_in_words(load: Load, axis: Index, terms: int, simplify: Simplifier) -> bool:
    step = simplify.flat_index(load.tensor, load.indices).coefficient(axis)
    return step == 1 and int(axis.extent) % terms == 0


def _dimension(load: Load, axis: Index) -> int | None:
    """The one dimension of *load* along which *axis* runs, from its beginning to its end."""
    found = [k for k, i in enumerate(load.indices) if mentions(i, axis)]
    if len(found) != 1 or load.indices[found[0]] is not axis or load.tensor.shape[found[0]] != axis.extent:
        return None
    return found[0]


def words_of_array(array: np.ndarray, dimension: int, terms: int) -> np.ndarray:
    """*array* with the numbers along *dimension* in words of *terms*, the last one filled up with zeros."""
    last = np.moveaxis(array, dimension, -1)
    missing = -last.shape[-1] % terms
    bits = np.asarray(last, order="C").view(f"uint{8 * array.itemsize}")
    filled = np.pad(bits, [(0, 0)] * (array.ndim - 1) + [(0, missing)])
    return np.asarray(np.moveaxis(np.asarray(filled, order="C").view(WORD), -1, dimension), order="C")


def _stage_of_words(source: Tensor, dimension: int, terms: int) -> Tensor:
    """The stage that puts the numbers of *source* along *dimension* into words."""
    extent = int(source.shape[dimension])
    shape = [-(-extent // terms) if k == dimension else d for k, d in enumerate(source.shape)]
    bits = f"uint{8 * dtype_bytes(source.dtype)}"

    def element(*index: Index) -> PrimExpr:
        word: PrimExpr | None = None
        for k in range(terms):
            place = index[dimension] * terms + k
            number = _bits(source, [place if d == dimension else i for d, i in enumerate(index)], bits)
            if extent % terms and k:
                number = if_then_else(place < extent, number, const(0, bits))
            part = binary("mul", cast(WORD, number), const(1 << (k * 8 * dtype_bytes(source.dtype)), WORD))
            word = part if word is None else binary("add", word, part)
        assert word is not None
        return word

    return compute(shape, element, f"{source.name}_words")


def _bits(source: Tensor, indices: Sequence[PrimExpr], dtype: str) -> PrimExpr:
    """An element of *source* as the unsigned *dtype* of its width: a negative one would fill the word's upper bits."""
    if source.dtype.startswith("int"):
        return cast(dtype, Load(source, indices, source.dtype))
    return Load(source, indices, dtype)  # stored as these bits


def as_words(expr: PrimExpr, along: PrimExpr, dtype: str) -> PrimExpr | None:
    """A padded load as one of words, whose numbers lie along the index *along*; None where a condition is about it."""
    if isinstance(expr, Load) and not expr.is_word:
        return Load(expr.tensor, expr.indices, dtype)
    if isinstance(expr, Const) and expr.value == 0:
        return const(0, dtype)
    if isinstance(expr, Select):
        axes = {n for n in unique_nodes(along) if isinstance(n, Index)}
        if any(n in axes for n in unique_nodes(expr.cond)):
            return None
        then, otherwise = as_words(expr.then, along, dtype), as_words(expr.otherwise, along, dtype)
        return None if then is None or otherwise is None else Select(expr.cond, then, otherwise)
    return None


def with_term(total: PrimExpr, term: PrimExpr) -> PrimExpr:
    """*total* and one more *term* of its sum; a dot product adds by itself."""
    if isinstance(term, Intrinsic) and term.name in DOTS:
        return Intrinsic(term.name, (*term.args[:2], total))
    return binary("add", total, term)
