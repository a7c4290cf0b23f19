"""From a Program to the one that C is written for: what is decided over several stages, before each gets its loops."""

from __future__ import annotations

from byoc.codegen.c.contraction.packing import pack_operands
from byoc.codegen.c.contraction.padding import absorb_padding
from byoc.codegen.c.contraction.words import use_words
from byoc.codegen.c.machine import Machine
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.widen import widen_arithmetic
from byoc.codegen.tune.choice import Choices


def prepare(program: Program, machine: Machine, choices: Choices | None = None) -> Program:
    """*program* with padding left to the sums that read it, and their operands in words and panels.

    *choices* are asked where a schedule has several ways; the cost models decide without them.
    """
    program = widen_arithmetic(program)
    if machine.lanes(4) > 1:
        program = use_words(program)
    return pack_operands(absorb_padding(program, machine), machine, choices)
