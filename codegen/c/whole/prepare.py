"""From a Program to the one that C is written for: what is decided over several stages, before each gets its loops."""

from __future__ import annotations

import dataclasses

from byoc.codegen.c.contraction.packing import pack_operands
from byoc.codegen.c.contraction.padding import absorb_padding
from byoc.codegen.c.contraction.word_products import use_words
from byoc.codegen.c.rows.rows import local_stages
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.winograd.options import DEFAULT, WinogradOptions
from byoc.codegen.c.winograd.rewrite import use_winograd
from byoc.codegen.kernel.choice import Choices
from byoc.codegen.kernel.deferred_normalization import defer_normalization
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.stored_types import as_stored, widen_arithmetic
from byoc.te import Tensor
from byoc.te.walk import loaded_tensors

BESIDE = ("bfloat16",)  # has vectors and products of its own


def prepare(
    program: Program, machine: Machine, choices: Choices | None = None, allowed: WinogradOptions = DEFAULT
) -> Program:
    """*program* with padding left to the sums that read it, and their operands in words and panels.

    *choices* are asked where a schedule has several candidates; the cost models decide without them. *allowed*: which
    convolutions may take Winograd's method. Nothing is decided for a routine.
    """
    if program.routine is not None:
        return program
    program = use_winograd(widen_arithmetic(as_stored(program, BESIDE)), machine, allowed, choices)
    if not allowed.strict:
        program = defer_normalization(program)
    if machine.lanes(4) > 1:
        program = use_words(program)
    return _with_local_stages(pack_operands(absorb_padding(program, machine), machine, choices), machine)


def _with_local_stages(program: Program, machine: Machine) -> Program:
    """*program* whose groups keep for themselves what only one row of them needs at a time."""
    readers: dict[Tensor, set[int]] = {}
    for number, group in enumerate(program.groups):
        for stage in group.stages:
            for tensor in loaded_tensors(stage.element):
                readers.setdefault(tensor, set()).add(number)
    groups = []
    for number, group in enumerate(program.groups):
        outside = {s for s in group.stages if s in program.outputs or readers.get(s, set()) - {number}}
        groups.append(dataclasses.replace(group, local=local_stages(group.stages, outside, machine)))
    return dataclasses.replace(program, groups=tuple(groups))
