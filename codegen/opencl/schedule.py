"""From one stage to a kernel: what a work-item computes, and how many there are.

Seven schedules, the first that fits the sizes; where these are free, a kernel each, and the sizes of a call choose:

- *product*, *matrix*: a sum of products whose operands many outputs share, by tiles in local memory, where the device
  has matrix units for such numbers by these (``products``);
- *tree*: few outputs, each a long reduction (``thresholds.py``): a work-group an output, folded in local memory;
- *tile*: a sum of products (convolution, matrix product): each work-item computes several outputs along one axis that
  an operand does not depend on, so that this operand is read once for all of them;
- *turn*, *sector*: an exchange of axes by tiles that pass through local memory; where there are few of them, a
  work-item stores a sector, its neighbours read neighbours (``elements``);
- *vector*: a work-item makes several neighbours of as many neighbours, where there are enough of them;
- *item*: one work-item an output element, in row-major order, so that neighbours read and write neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from byoc.codegen.kernel.choice import Choice
from byoc.codegen.kernel.collapse import Nest, collapse_axes
from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.loops import Alloc, IfThenElse, LetStmt, Stmt, Store
from byoc.codegen.kernel.reductions import combine, loops, neutral, without_reductions
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.choosing import (
    Ranked,
    ScheduleOption,
    chosen_option,
    items_of_a_group,
    ranked_options,
    roughly,
)
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, Range, at, numbered, own_kernel
from byoc.codegen.opencl.device.profile import ANY_GPU, DeviceProfile
from byoc.codegen.opencl.device.statements import (
    FirstItem,
    GroupReduce,
    SharedLoop,
    WorkGroup,
    WorkItem,
)
from byoc.codegen.opencl.elements.sectors import axis_of_neighbours, sector_kernel, sector_width
from byoc.codegen.opencl.elements.turned_tiles import ITEMS as TURNING_ITEMS
from byoc.codegen.opencl.elements.turned_tiles import enough_tiles, local_bytes, turned_kernel
from byoc.codegen.opencl.elements.vectors import ITEMS_OF_A_UNIT, WIDTH, VectorStage
from byoc.codegen.opencl.products.candidates import TileCandidate, candidates
from byoc.codegen.opencl.products.shape import block_product
from byoc.codegen.opencl.products.tile import is_worth_tiles
from byoc.te import Index, PrimExpr, Tensor, binary, placeholder
from byoc.te.expr import INDEX, Binary, Const, Reduce, Select
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes

TILES = (8, 4, 2)
ENOUGH_ITEMS = 2048  # a tile may not leave fewer work-items than this, or a device stands idle


def schedule_stage(
    stage: Tensor, simplify: Simplifier, profile: DeviceProfile = ANY_GPU, choice: Choice | None = None
) -> tuple[KernelPlan, ...]:
    """The kernels that fill the buffer of *stage*, over as few axes as its accesses allow, one where sizes are known.

    A call takes the first that is for its sizes; the last is for all. With *choice*, one of :func:`stage_space`, that.
    """
    own = own_kernel(stage)
    if own is not None:
        return (own.kernel(stage, simplify),)
    nest = collapse_axes(stage, simplify)
    if choice is not None:
        plan = chosen_option(list(_options(nest, simplify, profile)), choice)
        if plan is not None:
            return (plan,)
    found: list[KernelPlan] = []
    for option in _options(nest, simplify, profile):
        if option.when is not None:
            found.append(option.make(option.when, option.local))
            if not option.when:
                break
    return tuple(found)


def stage_space(stage: Tensor, simplify: Simplifier, profile: DeviceProfile, parts: Sequence[int] = (1,)) -> Ranked:
    """Every schedule of *stage* with every work-group, the model's first; a product in so many *parts*.

    Nothing where the sizes of a call decide.
    """
    options = list(_options(collapse_axes(stage, simplify), simplify, profile, parts))
    return ranked_options(options, roughly([stage], profile), profile)


def _options(
    nest: Nest, simplify: Simplifier, profile: DeviceProfile, parts: Sequence[int] = (1,)
) -> Iterator[ScheduleOption]:
    """The schedules of a stage, in the order in which the model would take them."""
    if not profile.is_cpu:
        yield from _products(nest, simplify, profile, parts)
    yield from _trees(nest, simplify, profile)
    yield from _tiles(nest, simplify)
    if not profile.is_cpu:
        yield from _exchanges(nest, simplify, profile)
        yield from _vectors(nest, simplify, profile)
    count = _number(Range.of([a.extent for a in nest.axes], simplify))
    own = items_of_a_group(count, profile)
    yield ScheduleOption(Choice.of("item"), (), lambda when, local: _item(nest, simplify, local), count, local=own)


def _number(count: Range) -> int:
    return int(count.number.value) if isinstance(count.number, Const) else 0


def _products(
    nest: Nest, simplify: Simplifier, profile: DeviceProfile, parts: Sequence[int]
) -> Iterator[ScheduleOption]:
    """Tiles of rows and columns, for products whose operands many outputs share."""
    p = block_product(nest, simplify)
    if p is None or not is_worth_tiles(p.sizes()):
        return
    for k, found in enumerate(candidates(p, profile, parts)):

        def make(when: tuple[Range, ...], _: int, candidate: TileCandidate = found) -> KernelPlan:
            return candidate.kernel(p, simplify, profile, when)

        yield ScheduleOption(found.choice, None if k else (), make, cost=found.cost)


def _open(ranges: Sequence[Range]) -> tuple[Range, ...] | None:
    """Those of *ranges* that the sizes of a call decide; None where one does not hold for any."""
    if any(r.known() is False for r in ranges):
        return None
    return tuple(r for r in ranges if r.known() is None)


def _item(nest: Nest, simplify: Simplifier, local: int) -> KernelPlan:
    """One work-item an element."""
    item, axes = numbered("item", nest.axes, simplify)
    statements, value = without_reductions(nest.value)
    store = Store(nest.stage, at(nest.stage, item), value)
    code = [WorkItem(item, local), *axes, *statements, store]
    return KernelPlan("item", code, as_index(item.extent), local=local)


def _exchanges(nest: Nest, simplify: Simplifier, profile: DeviceProfile) -> Iterator[ScheduleOption]:
    """Tiles or sectors, for stages that read neighbours along another axis than the one along which they lie."""
    beside = axis_of_neighbours(nest, simplify)
    if beside is None:
        return
    if profile.max_group >= TURNING_ITEMS and profile.local_memory >= local_bytes(nest.stage.dtype):
        tiles = enough_tiles(nest, beside, profile.units, simplify)
        yield ScheduleOption(
            Choice.of("turn"), _open([tiles]), lambda when, _: turned_kernel(nest, beside, simplify, when)
        )
    width = sector_width(nest.stage.dtype)
    left = Range.of([a.extent for a in nest.axes], simplify, least=ENOUGH_ITEMS * width)
    items = _number(left) // width

    def sectors(when: tuple[Range, ...], local: int) -> KernelPlan:
        return sector_kernel(nest, beside, simplify, local, when)

    yield ScheduleOption(Choice.of("sector"), _open([left]), sectors, items)


def _vectors(nest: Nest, simplify: Simplifier, profile: DeviceProfile) -> Iterator[ScheduleOption]:
    """Several neighbours a work-item, for stages that read neighbours along the axis along which they fill them."""
    found = VectorStage.of(nest, simplify)
    if found is None:
        return
    left = Range.of([a.extent for a in nest.axes], simplify, least=WIDTH * ITEMS_OF_A_UNIT * profile.units)
    items = _number(left) // WIDTH
    own = items_of_a_group(items, profile)

    def vectors(when: tuple[Range, ...], local: int) -> KernelPlan:
        return found.kernel(simplify, local, when)

    yield ScheduleOption(Choice.of("vector"), _open([left]), vectors, items, local=own)


def _only_reduction(nest: Nest) -> Reduce | None:
    """The reduction of a nest that has exactly one, not of positions."""
    found = [n for n in unique_nodes(nest.value) if isinstance(n, Reduce)]
    return found[0] if len(found) == 1 and not found[0].kind.startswith("arg") else None


def _replace(value: PrimExpr, old: PrimExpr, new: PrimExpr) -> PrimExpr:
    return map_expr(value, lambda e: new if e is old else None)


def _trees(nest: Nest, simplify: Simplifier, profile: DeviceProfile) -> Iterator[ScheduleOption]:
    """A work-group an element, which the model takes for few elements of long reductions."""
    reduce = _only_reduction(nest)
    if reduce is None:
        return
    of = profile.thresholds
    count = Range.of(nest.stage.shape, simplify, most=of.few_outputs)
    terms = Range.of([a.extent for a in reduce.axes], simplify, least=of.long_reduction)
    when = _open([count, terms])
    far = 0.0
    if _number(count) and _number(terms):
        far = math.log2(max(_number(count) / of.few_outputs, 1)) + math.log2(max(of.long_reduction / _number(terms), 1))

    def make(when: tuple[Range, ...], local: int) -> KernelPlan:
        return _tree(nest, reduce, when, simplify, local)

    yield ScheduleOption(Choice.of("tree"), when, make, _number(count), shares=True, far=far)


def _tree(nest: Nest, reduce: Reduce, when: tuple[Range, ...], simplify: Simplifier, local: int) -> KernelPlan:
    """A work-group of *local* work-items, a power of two, an element."""
    stage = nest.stage
    group, axes = numbered("group", nest.axes, simplify)
    point, points = numbered("point", reduce.axes, simplify)
    acc = placeholder((), reduce.dtype, "acc")
    scratch = placeholder((local,), reduce.dtype, "scratch")
    fold = Store(acc, (), combine(reduce.kind, acc[()], reduce.body))
    value = _replace(nest.value, reduce, scratch[0])
    return KernelPlan(
        "tree",
        [
            WorkGroup(group),
            *axes,
            Alloc(acc, neutral(reduce.kind, reduce.dtype)),
            SharedLoop(point, point.extent, [*points, fold]),
            GroupReduce(reduce.kind, acc, scratch),
            FirstItem([Store(stage, at(stage, group), value)]),
        ],
        as_index(group.extent),
        groups=True,
        when=when,
        local=local,
    )


def _tiles(nest: Nest, simplify: Simplifier) -> Iterator[ScheduleOption]:
    """Several outputs along one axis a work-item, for sums of products: the first where sizes are known."""
    reduce = _only_reduction(nest)
    if reduce is None or reduce.kind != "sum":
        return
    for number, axis in enumerate(_tile_axes(nest, reduce, simplify)):
        found = [tile for tile in TILES if _divides_enough(axis, tile)]
        for tile in found:

            def make(when: tuple[Range, ...], local: int, axis: Index = axis, tile: int = tile) -> KernelPlan:
                return _tile(nest, reduce, axis, tile, when, simplify, local)

            left = _items_left(nest, axis, tile, simplify)
            yield ScheduleOption(Choice.of("tile", outputs=tile, axis=number), _open([left]), make, _number(left))
        if any(_open([_items_left(nest, axis, tile, simplify)]) is not None for tile in found):
            return


def _tile(
    nest: Nest, reduce: Reduce, axis: Index, tile: int, when: tuple[Range, ...], simplify: Simplifier, local: int
) -> KernelPlan:
    """*tile* outputs along *axis* a work-item."""
    length = int(axis.extent)
    block = Index("block", -(-length // tile))
    item, axes = numbered("item", [block if a is axis else a for a in nest.axes], simplify)
    statements: list[Stmt] = [WorkItem(item, local), *axes]
    accs = [placeholder((), reduce.dtype, f"acc{u}") for u in range(tile)]
    places: list[PrimExpr] = [binary("add", binary("mul", block, tile), u) for u in range(tile)]
    inside: Sequence[PrimExpr] = places
    if length % tile:  # the last tile reads its last element again and stores what is inside
        inside = names = [Index(f"{axis.name}_{u}", length) for u in range(tile)]
        statements += [LetStmt(i, _clamped(p, length)) for i, p in zip(names, places, strict=True)]
    statements += [Alloc(acc, neutral("sum", acc.dtype)) for acc in accs]
    folds = [
        Store(acc, (), combine("sum", acc[()], substitute_axes(reduce.body, [axis], [i])))
        for acc, i in zip(accs, inside, strict=True)
    ]
    statements += loops(reduce.axes, folds)
    for acc, i, place in zip(accs, inside, places, strict=True):
        value = substitute_axes(_replace(nest.value, reduce, acc[()]), [axis], [i])
        store = Store(nest.stage, [substitute_axes(index, [axis], [i]) for index in nest.indices], value)
        statements.append(store if length % tile == 0 else IfThenElse(binary("lt", place, length), [store]))
    return KernelPlan(f"tile{tile}", statements, as_index(item.extent), when=when, local=local)


def _clamped(place: PrimExpr, length: int) -> PrimExpr:
    return Select(binary("lt", place, length), place, as_index(length - 1))


def _tile_axes(nest: Nest, reduce: Reduce, simplify: Simplifier) -> list[Index]:
    """The axes to compute several elements of in one work-item, best first; never the last, which neighbours share.

    Best is one that leaves alone an operand which differs between neighbours (the image, for output channels): what
    is then read for each element is the same for all neighbours.
    """
    axes = [a for a in nest.axes if a.extent != 1]
    if len(axes) < 2:
        return []
    loads = [n for n in unique_nodes(reduce.body) if isinstance(n, Load)]
    uses = [{id(n) for i in load.indices for n in unique_nodes(simplify(i)) if isinstance(n, Index)} for load in loads]
    shared = [a for a in reversed(axes[:-1]) if any(id(a) not in u for u in uses) and any(id(a) in u for u in uses)]
    best = [a for a in shared if any(id(a) not in u and id(axes[-1]) in u for u in uses)]
    return list(dict.fromkeys((*best, *shared)))


def _divides_enough(axis: Index, tile: int) -> bool:
    """Whether *tile* elements of *axis* waste little."""
    extent = axis.extent
    return isinstance(extent, int) and (extent % tile == 0 or extent >= 2 * tile)


def _items_left(nest: Nest, axis: Index, tile: int, simplify: Simplifier) -> Range:
    """The work-items that *tile* elements of *axis* leave, and how many are enough of them."""
    left = [-(-int(axis.extent) // tile), *(a.extent for a in nest.axes if a is not axis)]
    return Range.of(left, simplify, least=ENOUGH_ITEMS)


def index_type(stage: Tensor, simplify: Simplifier) -> str:
    """``int`` where no index in the kernel of *stage* can pass its range, else ``long``."""
    nodes = list(unique_nodes(stage.element))
    shapes = [stage.shape, *(n.tensor.shape for n in nodes if isinstance(n, Load))]
    shapes += [tuple(a.extent for a in n.axes) for n in nodes if isinstance(n, Reduce)]
    if not all(isinstance(d, int) for shape in shapes for d in shape):
        return "long"
    arithmetic = [n for n in nodes if isinstance(n, Binary) and n.dtype == INDEX]
    bounds = [abs(b) for n in arithmetic for b in simplify.bounds(n)]
    largest = max([*(math.prod(map(int, shape)) for shape in shapes), *bounds])
    return "int" if largest < 2**30 else "long"
