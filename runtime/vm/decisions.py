"""Functions of the bytecode that are one decision or one loop over tensors, for native code to make by itself.

A decision calls one function of the library on each side, and gives what that gives. A loop is one of ``loops.py``
that collects nothing, and gives some of its parameters at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.runtime.vm import instructions as i
from byoc.runtime.vm.loops import LoopBody
from byoc.runtime.vm.program import VMFunction


@dataclass(frozen=True)
class Branch:
    """One side: the call of symbol *packed* with the parameters *inputs*, whose outputs are those of the function."""

    packed: int
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class BranchDecision:
    """*then* where the boolean parameter *test* is true, else *other*."""

    test: int
    then: Branch
    other: Branch


def decision_of(function: VMFunction) -> BranchDecision | None:
    """The decision that *function* is; None where it is something else."""
    found = _sides(function)
    if found is None:
        return None
    test, places = found
    then, other = (_branch(function, place) for place in places)
    return None if then is None or other is None else BranchDecision(test, then, other)


def results_of(function: VMFunction, body: LoopBody) -> tuple[int, ...] | None:
    """The parameters that the loop *function* gives where it ends; None where it gives something else."""
    found = _sides(function)
    if found is None or found[0] != body.decides:
        return None
    return _given(function, found[1][1], range(len(function.params)))


def _sides(function: VMFunction) -> tuple[int, tuple[int, int]] | None:
    """The parameter on which *function* decides at its begin, and where both sides stand."""
    code = function.instructions
    if function.captured or function.own >= 0 or len(code) < 2:
        return None
    one, test = code[0], code[1]
    if not isinstance(one, i.LoadConsti) or one.value != 1 or not isinstance(test, i.If) or test.target != one.dst:
        return None
    if test.test >= len(function.params):
        return None
    return test.test, (1 + test.true_offset, 1 + test.false_offset)


def _branch(function: VMFunction, place: int) -> Branch | None:
    call = function.instructions[place]
    if not isinstance(call, i.InvokePacked) or any(r >= len(function.params) for r in call.args):
        return None
    if _given(function, place + 1, call.outputs) != tuple(range(len(call.outputs))):
        return None
    return Branch(call.packed, call.args)


def _given(function: VMFunction, place: int, registers: Sequence[int]) -> tuple[int, ...] | None:
    """What *function* gives from *place* on, by positions among *registers*; None where that is something else."""
    code, op = function.instructions, function.instructions[place]
    if isinstance(op, i.Goto):
        return _given(function, place + op.offset, registers)
    fields: tuple[int, ...]
    if isinstance(op, i.AllocADT) and op.tag == 0:
        after = code[place + 1]
        if not isinstance(after, i.Ret) or after.result != op.dst:
            return None
        fields = op.fields
    elif isinstance(op, i.Ret):
        fields = (op.result,)
    else:
        return None
    return tuple(registers.index(r) for r in fields) if set(fields) <= set(registers) else None
