"""Attention in a Program: a product, a softmax over it, and the product that weighs values by it, across its groups.

Found from the softmax: its tags say where it is, and every stage between, before and behind it that nothing else reads
is put into one expression: views, masks, scales, the heads' transposes. What one element of the result is then says
what each axis is: an axis of the values alone is a *column*, one that neither keys nor values depend on is a *row*, the
others are the *batch* (a head that shares its keys with others is a row or a batch by itself). Source: Dao et al. 2022,
FlashAttention, algorithm 1, for what a kernel makes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from byoc.codegen.kernel.deferred_normalization import INVERSE, POWERS, split_factors
from byoc.codegen.kernel.expr_parts import divisors, factors, loads_of, reduces_in, times, uncast, with_value
from byoc.codegen.kernel.inline import CHEAP_INTRINSICS, MAX_NODES, estimated_size, substitute_axes
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import Index, PrimExpr, Tensor, const, placeholder
from byoc.te.expr import INDEX, Binary, Checked, Intrinsic, Reduce
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, map_expr, mentions, operands, unique_nodes

FLOATS = ("float32", "float64")
MAX_LOADS = 2  # of tensors as large as the stage


@dataclass(frozen=True)
class Attention:
    """*result* and the *stages* that only it needs, as parts of one element of it.

    An element is ``value`` over :attr:`total`, the sum over *key* of ``weight * column``, and over :attr:`sum`, that of
    the powers. ``weight`` is over :attr:`power`, the exponential of ``score`` less the greatest score of the row;
    ``score`` is over :attr:`dot`, the sum over *depth* of ``query * keyed``. The four names are scalars. *place* are
    the indices of the element in *result*, over *batch*, *rows* and *columns*.
    """

    result: Tensor
    stages: tuple[Tensor, ...]
    batch: tuple[Index, ...]
    rows: tuple[Index, ...]
    columns: tuple[Index, ...]
    key: Index
    depth: Index
    query: PrimExpr
    keyed: PrimExpr
    score: PrimExpr
    weight: PrimExpr
    column: PrimExpr
    value: PrimExpr
    dot: Tensor
    power: Tensor
    total: Tensor
    sum: Tensor
    place: tuple[PrimExpr, ...] = ()

    @property
    def expressions(self) -> tuple[PrimExpr, ...]:
        """All parts of an element."""
        return (self.query, self.keyed, self.score, self.weight, self.column, self.value)

    @property
    def sources(self) -> tuple[Tensor, ...]:
        """What is read from memory."""
        own = (self.dot, self.power, self.total, self.sum)
        read = dict.fromkeys(t for e in self.expressions for t in loaded_tensors(e))
        return tuple(t for t in read if t not in own)


def attentions(program: Program) -> list[Attention]:
    """The attentions of *program*, no stage in two of them."""
    if not any(s.tag == INVERSE for g in program.groups for s in g.stages):
        return []
    result: list[Attention] = []
    taken: set[Tensor] = set()
    search = _Search(program)
    for inverse in (s for s in search.order if s.tag == INVERSE):
        found = search.around(inverse)
        if found is not None and not taken & set(found.stages):
            result.append(found)
            taken |= set(found.stages)
    return result


@dataclass(frozen=True)
class _Softmax:
    """The stages of a softmax: its greatest values, its powers (of *score* less these), and one over their sum."""

    top: Tensor
    powers: Tensor
    inverse: Tensor
    axis: int
    score: PrimExpr


class _Search:
    def __init__(self, program: Program):
        self.order = [s for g in program.groups for s in g.stages]
        self.outputs = set(program.outputs)
        self.readers: dict[Tensor, list[Tensor]] = {s: [] for s in self.order}
        self.simplify = Simplifier()
        for stage in self.order:
            for tensor in loaded_tensors(stage.element):
                if tensor in self.readers:
                    self.readers[tensor].append(stage)

    def around(self, inverse: Tensor) -> Attention | None:
        """The attention whose softmax ends in *inverse*; the one whose result is furthest behind it."""
        softmax = self._softmax(inverse)
        if softmax is None:
            return None
        for result in reversed(list(self._results(inverse))):
            inner = self._inner(softmax, result)
            found = None if inner is None else self._parts(softmax, result, inner)
            if found is not None:
                return found
        return None

    def _softmax(self, inverse: Tensor) -> _Softmax | None:
        sums = reduces_in(inverse.element)
        if len(sums) != 1 or sums[0].kind != "sum" or len(sums[0].axes) != 1 or not isinstance(sums[0].body, Load):
            return None
        powers = sums[0].body.tensor
        places = [k for k, i in enumerate(sums[0].body.indices) if i is sums[0].axes[0]]
        if powers.tag != POWERS or powers not in self.readers or len(places) != 1:
            return None
        less = powers.element.args[0] if isinstance(powers.element, Intrinsic) else None
        if not isinstance(less, Binary) or less.op != "sub":
            return None
        right = uncast(less.right)
        if not isinstance(right, Load) or right.tensor not in self.readers:
            return None
        top = right.tensor.element
        if not isinstance(top, Reduce) or top.kind != "max" or len(top.axes) != 1:
            return None
        own = substitute_axes(top.body, right.tensor.axes, right.indices)
        own = map_expr(own, lambda e: powers.axes[places[0]] if e is top.axes[0] else None)
        if not self._same(own, uncast(less.left)):
            return None
        return _Softmax(right.tensor, powers, inverse, places[0], less.left)

    def _results(self, inverse: Tensor) -> Iterator[Tensor]:
        """What may be the result: the product that the softmax leads to, and what alone reads that, and so on."""
        stage: Tensor | None = inverse
        products = 0
        while stage is not None and stage not in self.outputs:
            readers = self.readers[stage]
            stage = readers[0] if len(readers) == 1 else None
            if stage is not None:
                products += len(reduces_in(stage.element))
                if products > 1:
                    return
                if products:
                    yield stage

    def _inner(self, softmax: _Softmax, result: Tensor) -> set[Tensor] | None:
        """The stages that only *result* needs, and whose elements may be computed where they are read."""
        core = {softmax.top, softmax.powers, softmax.inverse}
        inner = {result}
        assert isinstance(softmax.powers.element, Intrinsic)
        path = set(loaded_tensors(softmax.powers.element)) - core
        product = False
        end = self.order.index(result)
        for stage in reversed(self.order[:end]):
            readers = self.readers[stage]
            if not readers or stage in self.outputs or not set(readers) <= inner | core:
                if stage in core:
                    return None
                continue
            reduces = reduces_in(stage.element)
            if stage in core:
                continue
            if reduces:
                weighs = self._leads_to(stage, result, inner) and softmax.inverse in self._before(stage, inner)
                scores = stage in path and not product
                if not weighs and not scores:
                    continue
                product = product or scores
            elif not _is_cheap(stage):
                continue
            inner.add(stage)
            if stage in path and not reduces:
                path |= set(loaded_tensors(stage.element))
        return inner | core

    def _leads_to(self, stage: Tensor, result: Tensor, inner: set[Tensor]) -> bool:
        """Whether *stage* is on the path behind the softmax, along which each has one reader."""
        while stage is not result:
            readers = self.readers[stage]
            if len(readers) != 1:
                return False
            stage = readers[0]
        return True

    def _before(self, stage: Tensor, inner: set[Tensor]) -> set[Tensor]:
        """The stages that *stage* is made from."""
        found: set[Tensor] = set()
        open_ends = [stage]
        while open_ends:
            for tensor in loaded_tensors(open_ends.pop().element):
                if tensor in self.readers and tensor not in found:
                    found.add(tensor)
                    open_ends.append(tensor)
        return found

    def _parts(self, softmax: _Softmax, result: Tensor, inner: set[Tensor]) -> Attention | None:
        core = {softmax.top, softmax.powers, softmax.inverse}
        element = self._inlined(result.element, inner - core)
        sums = reduces_in(element)
        if len(sums) != 1 or sums[0].kind != "sum" or len(sums[0].axes) != 1 or sums[0].dtype not in FLOATS:
            return None
        weighed = sums[0]
        (key,) = weighed.axes
        body, behind = split_factors(weighed.body, key)
        parts = list(factors(body))
        weight = [f for f in parts if loads_of(f, softmax.powers)]
        column = [f for f in parts if f not in weight]
        loads = loads_of(body, softmax.powers)
        if len(weight) != 1 or not column or len(loads) != 1 or loads_of(body, softmax.inverse):
            return None
        place = loads[0].indices
        if place[softmax.axis] is not key or any(mentions(i, key) for k, i in enumerate(place) if k != softmax.axis):
            return None
        dot, power = placeholder((), "float32", "dot"), placeholder((), softmax.powers.dtype, "power")
        total, summed = placeholder((), weighed.dtype, "total"), placeholder((), softmax.powers.dtype, "sum")
        inverse = with_value(softmax.inverse.element, reduces_in(softmax.inverse.element)[0], summed[()])
        value = map_expr(element, lambda e: behind(total[()]) if e is weighed else None)
        if not self._same_row(loads_of(value, softmax.inverse), place, softmax):
            return None
        value = map_expr(value, lambda e: inverse if isinstance(e, Load) and e.tensor is softmax.inverse else None)
        score = self._inlined(substitute_axes(softmax.score, softmax.powers.axes, place), inner - core)
        products = reduces_in(score)
        if len(products) != 1 or products[0].kind != "sum" or len(products[0].axes) != 1:
            return None
        (product,) = products
        dot.dtype = product.dtype
        sides = list(factors(product.body))
        keyed = [f for f in sides if mentions(f, key)]
        query = [f for f in sides if f not in keyed]
        others = [*keyed, *query, weight[0], *column, value]
        if not keyed or not query or any(loads_of(e, t) for e in [score, *others] for t in (softmax.top,)):
            return None
        if any(reduces_in(e) for e in (weight[0], *column, *keyed, *query, value)) or product.dtype not in FLOATS:
            return None
        made = Attention(
            result,
            tuple(s for s in self.order if s in inner),
            (),
            (),
            (),
            key,
            product.axes[0],
            times(query),
            times(keyed),
            map_expr(score, lambda e: dot[()] if e is product else None),
            map_expr(weight[0], lambda e: power[()] if e is loads[0] else None),
            times(column),
            value,
            dot,
            power,
            total,
            summed,
        )
        return self._with_axes(made)

    def _same_row(self, loads: Iterable[Load], place: tuple[PrimExpr, ...], softmax: _Softmax) -> bool:
        """Whether *loads* of the inverse are at the row of the powers at *place*."""
        return all(
            all(self._equal(a, b) for k, (a, b) in enumerate(zip(n.indices, place, strict=True)) if k != softmax.axis)
            for n in loads
        )

    def _with_axes(self, made: Attention) -> Attention | None:
        """*made* with what each axis of the result is; None where an axis is a column and something else."""
        made = self._split(made)
        long = dict.fromkeys(n for e in made.place for n in unique_nodes(e) if isinstance(n, Index))
        scored = (made.query, made.keyed, made.score, made.weight)
        columns = [a for a in long if not any(mentions(e, a) for e in scored)]
        shared = [a for a in long if a not in columns and any(mentions(e, a) for e in (made.keyed, made.column))]
        rows = [a for a in long if a not in columns and a not in shared]
        static = all(isinstance(a.extent, int) for a in (*columns, made.depth))
        if not static or mentions(made.query, made.key) or mentions(made.value, made.key):
            return None
        if any(len(list(unique_nodes(e))) > MAX_NODES for e in made.expressions):
            return None
        return replace(made, batch=tuple(shared), rows=tuple(rows), columns=tuple(columns))

    def _split(self, made: Attention) -> Attention:
        """*made* with each axis that is a head and a column of it, as one axis of both, made two."""
        table: dict[Index, PrimExpr] = {}
        for axis in made.result.axes:
            sizes = {n for e in made.expressions for n in divisors(e, axis)}
            if len(sizes) == 1 and isinstance(axis.extent, int) and axis.extent % (count := sizes.pop()) == 0:
                table[axis] = Index(axis.name, axis.extent // count) * count + Index("column", count)

        def over(expr: PrimExpr) -> PrimExpr:
            new = map_expr(expr, lambda e: table.get(e) if isinstance(e, Index) else None)
            return expr if new is expr else self._placed(new)

        place = [self.simplify(table.get(a, const(0, INDEX) if a.extent == 1 else a)) for a in made.result.axes]
        return replace(
            made,
            place=tuple(place),
            query=over(made.query),
            keyed=over(made.keyed),
            score=over(made.score),
            weight=over(made.weight),
            column=over(made.column),
            value=over(made.value),
        )

    def _inlined(self, expr: PrimExpr, inner: set[Tensor]) -> PrimExpr:
        """*expr* with the elements of the stages *inner* in place of their loads."""

        def leaf(e: PrimExpr) -> PrimExpr | None:
            if not isinstance(e, Load) or e.tensor not in inner:
                return None
            indices = [self.simplify(map_expr(i, leaf)) for i in e.indices]
            key = (e.tensor, tuple(self.simplify.polynomial(i).key() for i in indices))
            if key not in memo:
                memo[key] = self._placed(map_expr(substitute_axes(e.tensor.element, e.tensor.axes, indices), leaf))
            return memo[key]

        memo: dict[object, PrimExpr] = {}
        return self._placed(map_expr(expr, leaf))

    def _placed(self, expr: PrimExpr) -> PrimExpr:
        """*expr* with the indices of its loads simplified."""

        def leaf(e: PrimExpr) -> PrimExpr | None:
            if not isinstance(e, Load):
                return None
            return e.of(e.tensor, [self.simplify(map_expr(i, leaf)) for i in e.indices])

        return map_expr(expr, leaf)

    def _equal(self, left: PrimExpr, right: PrimExpr) -> bool:
        difference = self.simplify.polynomial(left).add(self.simplify.polynomial(right), -1)
        return not difference.terms and difference.constant == 0

    def _same(self, left: PrimExpr, right: PrimExpr) -> bool:
        """Whether two expressions compute the same in the same way."""
        if left is right:
            return True
        if isinstance(left, Load) and isinstance(right, Load):
            return left.tensor is right.tensor and all(map(self._equal, left.indices, right.indices))
        if type(left) is not type(right) or left.dtype != right.dtype or isinstance(left, Index | Reduce):
            return False
        same = [getattr(left, n, None) == getattr(right, n, None) for n in ("op", "name", "check")]
        if not operands(left):
            return all(same) and getattr(left, "value", None) == getattr(right, "value", None)
        return all(same) and all(map(self._same, operands(left), operands(right)))


def _is_cheap(stage: Tensor) -> bool:
    """Whether computing an element again costs about what loading it does.

    The sum of a product's parts is not: each block of rows would read all of them.
    """
    nodes = list(unique_nodes(stage.element))
    own = estimated_size(stage.shape)
    if len([n for n in nodes if isinstance(n, Load) and estimated_size(n.tensor.shape) >= own]) > MAX_LOADS:
        return False
    functions = {n.name for n in nodes if isinstance(n, Intrinsic)}
    return functions <= CHEAP_INTRINSICS and len(nodes) <= MAX_NODES and not any(isinstance(n, Checked) for n in nodes)
