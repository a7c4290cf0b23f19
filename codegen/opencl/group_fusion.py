"""Stages of different groups that are one kernel on a GPU, whose launches cost as much as small kernels.

A stage that one other reads, element by element in the order in which both lie in memory, goes into that: a product
takes what is elementwise behind it as its epilogue, past reshapes that move nothing. At most one reduction is in a
stage then; of two products that are added, the later one takes the sum. Requires that padding is read through; to be
followed by ``split_sums``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from byoc.codegen.kernel.expr_parts import reduces_in
from byoc.codegen.kernel.inline import MAX_NODES, substitute_axes
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import with_body, with_stages
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.device.kernel_plan import product
from byoc.te import Index, PrimExpr, Tensor, const, recurrence
from byoc.te.expr import INDEX
from byoc.te.tensor import Load
from byoc.te.walk import checks_of, loaded_tensors, map_expr, unique_nodes

SOFTMAX = "softmax"  # the beginning of the tags by which attention and late division find their stages


def join_neighbours(program: Program) -> Program:
    """*program* with stages in the one stage that reads them, where neither is computed more often for it."""
    if any(recurrence(group.stages) for group in program.groups):
        return program
    simplify = Simplifier()
    while (joined := _one_round(program, simplify)) is not program:
        program = joined
    return program


def _one_round(program: Program, simplify: Simplifier) -> Program:
    """*program* after each stage that may go into its reader has gone there, from the last to the first."""
    readers = readers_of(program)
    together = {s for g in program.groups if len(g.stages) > 1 for s in g.stages}
    gone: dict[Tensor, Tensor] = {}  # by the stage that takes it
    for stage in reversed(list(readers)):
        if stage in gone or stage in program.outputs or len(readers[stage]) != 1:
            continue
        if stage in together and not reduces_in(stage.element):
            continue  # the rows of its group would lose it
        (reader,) = readers[stage]
        if reader not in gone and reader not in gone.values() and _may_go_into(stage, reader, simplify):
            gone[reader] = stage
    return _without(program, gone, simplify) if gone else program


def readers_of(program: Program) -> dict[Tensor, list[Tensor]]:
    """The stages that read each stage, in order."""
    readers: dict[Tensor, list[Tensor]] = {s: [] for g in program.groups for s in g.stages}
    for stage in readers:
        for tensor in loaded_tensors(stage.element):
            if tensor in readers:
                readers[tensor].append(stage)
    return readers


def _may_go_into(stage: Tensor, reader: Tensor, simplify: Simplifier) -> bool:
    if any(s.tag.startswith(SOFTMAX) for s in (stage, reader)) or reduces_in(reader.element):
        return False
    if checks_of([stage.element, reader.element]):
        return False
    if len(reduces_in(stage.element)) > 1 or any(r.kind.startswith("arg") for r in reduces_in(stage.element)):
        return False
    nodes = [*unique_nodes(stage.element), *unique_nodes(reader.element)]
    loads = [n for n in nodes if isinstance(n, Load) and n.tensor is stage]
    return len(nodes) <= MAX_NODES and all(lies_as(n, reader, simplify) for n in loads)


def lies_as(load: Load, stage: Tensor, simplify: Simplifier) -> bool:
    """Whether what *load* reads for an element of *stage* lies at the same place among as many elements."""
    if load.is_word or _size(load.tensor, simplify) != _size(stage, simplify):
        return False
    table = {a: const(0, INDEX) for a in stage.axes if a.extent == 1}
    own, read = (
        [map_expr(i, lambda e: table.get(e) if isinstance(e, Index) else None) for i in indices]
        for indices in (stage.axes, load.indices)
    )
    return bool(simplify.flat_index(load.tensor, read).key() == simplify.flat_index(stage, own).key())


def _size(tensor: Tensor, simplify: Simplifier) -> object:
    """What is equal for tensors with as many elements."""
    return simplify.polynomial(product(tensor.shape)).key()


def _without(program: Program, gone: Mapping[Tensor, Tensor], simplify: Simplifier) -> Program:
    """*program* with the values of *gone* inside of those that take them."""
    taken = set(gone.values())

    def change(stage: Tensor, renamed: Tensor) -> Sequence[Tensor]:
        if stage in taken:
            left[stage] = renamed
            return []
        if stage not in gone:
            return [renamed]
        return [with_body(renamed, _inside(gone[stage], left[gone[stage]], renamed, simplify))]

    left: dict[Tensor, Tensor] = {}
    return groups_joined(with_stages(program, change), program, gone)


def _inside(stage: Tensor, renamed: Tensor, reader: Tensor, simplify: Simplifier) -> PrimExpr:
    """The element of *reader* with that of *stage*, once for all loads of it; *renamed* is the stage as it is now."""
    load = next(n for n in unique_nodes(reader.element) if isinstance(n, Load) and n.tensor is stage)
    value = substitute_axes(renamed.element, renamed.axes, [simplify(i) for i in load.indices])
    return map_expr(reader.element, lambda e: value if isinstance(e, Load) and e.tensor is stage else None)


def groups_joined(made: Program, before: Program, gone: Mapping[Tensor, Tensor]) -> Program:
    """*made* of *before*, whose stages went elsewhere: groups have the names, nodes and operators of what came to them.

    *gone* has by each stage that took another one that other.
    """
    group_of = {s: g for g in before.groups for s in g.stages}
    groups = []
    for old, new in zip(before.groups, made.groups, strict=True):
        came = list(dict.fromkeys(group_of[gone[s]] for s in old.stages if s in gone and s not in gone.values()))
        came = [g for g in came if g is not old]
        if not new.stages:
            continue
        origin = tuple(dict.fromkeys(n for g in (*came, new) for n in g.origin))
        operators = tuple(name for g in (*came, new) for name in g.operators)
        name = "_".join([*(g.name for g in came), new.name.removeprefix("fused_") if came else new.name])
        groups.append(dataclasses.replace(new, name=name, origin=origin, operators=operators))
    return dataclasses.replace(made, groups=tuple(groups))


def views(program: Program) -> Mapping[Tensor, Tensor]:
    """The stages of *program* that need no memory of their own, each with the tensor in whose memory it lies.

    A stage that has the elements of another tensor in their order lies where that does; one that is a result takes in
    the stage that it is made of. Stages of one group are left alone: one kernel may compute both.
    """
    simplify = Simplifier()
    inside = {s: g for g in program.groups for s in g.stages}
    constants = {t for t, _ in program.constants}  # have memory apart from others
    found: dict[Tensor, Tensor] = {}
    for stage, group in inside.items():
        source = viewed(stage, simplify)
        if source is None or stage in found or source in constants or inside.get(source) is group:
            continue
        if stage not in program.outputs:
            found[stage] = found.get(source, source)
        elif source in inside and source not in found and source not in program.outputs:
            _move(found, source, stage)
    return found


def _move(found: dict[Tensor, Tensor], source: Tensor, to: Tensor) -> None:
    """Have *source*, and what lies in its memory, lie in that of *to*."""
    for stage, place in found.items():
        if place is source:
            found[stage] = to
    found[source] = to


def viewed(stage: Tensor, simplify: Simplifier) -> Tensor | None:
    """The tensor whose elements *stage* has in the same order."""
    load = stage.element
    if not isinstance(load, Load) or load.tensor.dtype != stage.dtype:
        return None
    return load.tensor if lies_as(load, stage, simplify) else None


def is_view(stage: Tensor, found: Mapping[Tensor, Tensor], outputs: Collection[Tensor]) -> bool:
    """Whether *stage* needs no kernel: where it lies, its elements are already."""
    load = stage.element
    if not isinstance(load, Load):
        return False
    return found.get(stage, stage) is found.get(load.tensor, load.tensor) and (stage in found or stage in outputs)
