"""The table of routines: C for operators of which no tensor expression says what one element is.

A routine is to generated C what a kernel is to numpy, and means the same, bit for bit: it stands here, beside the
generator, since it is text of this language alone, and is found by the name of its operator, as kernels are. It gives
statements over the buffers of one call, whose sizes may be free: shares of loops for the threads of a team, barriers,
and calls of functions that are written once for each dtype (``WrittenFunction``). So the call is a unit like
any other, in the whole program and in exported C.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.loops import Stmt
from byoc.ir.attrs import Attrs
from byoc.ir.op import Op
from byoc.ir.registry import Registry
from byoc.ir.types import TensorType
from byoc.te import Dimension, PrimExpr, Tensor, binary
from byoc.te.expr import as_expr

FAMILIES = ("finding", "ordering", "scatter")  # the modules of byoc.codegen.c.routines that declare routines


@dataclass(frozen=True)
class RoutineCall:
    """A call of an operator: its attributes, the tensors that it reads and those that it fills.

    *place* is what an error of the run begins with: the operator, with its node where that is known.
    """

    attrs: Attrs
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    place: str


@dataclass(frozen=True)
class RoutineBody:
    """What fills the outputs: *blocks* of statements with a barrier between any two, and *scratch* memory.

    ``checks`` are the names of the checks of indices. ``wraps``: there is arithmetic on integers that may overflow.
    """

    blocks: Sequence[Sequence[Stmt]]
    scratch: Sequence[Tensor] = ()
    checks: Sequence[str] = ()
    wraps: bool = False


Refusal = Callable[[Attrs, Sequence[TensorType]], str | None]


@dataclass(frozen=True)
class Routine:
    """*write* gives the body of a call; *refuses* says why there is none for attributes and inputs of such types."""

    write: Callable[[RoutineCall], RoutineBody]
    refuses: Refusal


_ROUTINES: Registry[Routine] = Registry("routine")


def routine(
    name: str, refuses: Refusal
) -> Callable[[Callable[[RoutineCall], RoutineBody]], Callable[[RoutineCall], RoutineBody]]:
    """Declare the routine of the operator *name*. Raises RegistryError where it has one."""

    def declare(write: Callable[[RoutineCall], RoutineBody]) -> Callable[[RoutineCall], RoutineBody]:
        _ROUTINES.register(name, Routine(write, refuses))
        return write

    return declare


def find_routine(op: Op) -> Routine | None:
    """The routine of *op*; None where it has none, or needs none for it has a tensor expression."""
    return None if op.compute is not None else _loaded().get(op.name)


def routine_names() -> tuple[str, ...]:
    """The names of the operators that have a routine."""
    return tuple(_loaded())


def _loaded() -> Registry[Routine]:
    """The table, with all families."""
    for family in FAMILIES:
        importlib.import_module(f"byoc.codegen.c.routines.{family}")
    return _ROUTINES


def product(dims: Sequence[Dimension]) -> PrimExpr:
    """The number of elements of a shape."""
    total: PrimExpr = as_expr(1, "int64")
    for dim in dims:
        total = binary("mul", total, as_expr(dim, "int64"))
    return total
