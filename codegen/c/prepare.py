"""From a Program to the one that C is written for: what is decided over several stages, before each gets its loops."""

from __future__ import annotations

from byoc.codegen.c.contraction.packing import pack_operands
from byoc.codegen.c.contraction.padding import absorb_padding
from byoc.codegen.c.machine import Machine
from byoc.codegen.kernel.program import Program


def prepare(program: Program, machine: Machine) -> Program:
    """*program* with padding left to the sums that read it, and their operands in panels."""
    return pack_operands(absorb_padding(program, machine), machine)
