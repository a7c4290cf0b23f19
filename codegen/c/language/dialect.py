"""Which C is written: what the host's compiler takes or what any compiler for C99 does, for a team or for one thread.

A schedule that asks for vectors asks for GCC's extensions; for plain C a machine without them (``PLAIN_MACHINE``) is
scheduled for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.c.language.spellings import C
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.kernel.expr_text import ExprWriter, check_name, outside_name
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.kernel.spelling import Language
from byoc.codegen.kernel.writer import Names

PLAIN_MACHINE = Machine(1, 8, 16)  # one byte: no two elements of any type in a vector


@dataclass(frozen=True)
class Dialect:
    """``plain``: C99 without extensions, whose integers wrap by the standard's own rules and whose indices take 32 bits
    where that is enough. ``team``: functions take the team whose thread they run on, last; else one thread does all.
    ``stops``: a function leaves at a barrier where the team agreed on the end of its run.
    """

    plain: bool = False
    team: bool = True
    wide: bool = True
    stops: bool = True

    @property
    def index(self) -> str:
        """The type of loop variables and positions."""
        return "int64_t" if self.wide else "int32_t"

    @property
    def language(self) -> Language:
        """The spellings, and the helpers that they call."""
        if not self.plain:
            return C
        from byoc.codegen.c.language.plain_expr import PLAIN_C

        return PLAIN_C

    def check_parameters(self, count: int) -> list[str]:
        """The parameters of a function that makes *count* checks of indices."""
        if not self.team:
            return ["int *outside"] if count else []
        return [f"int64_t {check_name(k)}" for k in range(count)]

    def check_arguments(self, numbers: Sequence[int]) -> list[str]:
        """The arguments for the checks of these *numbers* in the program."""
        if not self.team:
            return ["outside"] if numbers else []
        return [str(n) for n in numbers]

    def check_report(self, number: int, extent: str) -> str:
        """The statement that reports what check *number* of a function found in a dimension of *extent*."""
        found = outside_name(number)
        bound = extent if extent.isidentifier() or extent.isdigit() else f"({extent})"
        is_outside = f"if ({found} >= (uint64_t){bound} && {found} != 0)" if extent != "0" else f"if ({found} != 0)"
        if not self.team:
            return f"{is_outside} *outside = 1;"
        return f"{is_outside} run_outside(team->run, {check_name(number)}, {found}, {extent});"

    def expressions(self, names: Names, simplify: Simplifier) -> ExprWriter:
        """A writer of expressions. Where indices take 32 bits, it raises IndexTooWideError for one that needs more."""
        if not self.plain:
            return ExprWriter(self.language, names, simplify)
        from byoc.codegen.c.language.plain_expr import PlainExprWriter

        return PlainExprWriter(self.language, names, simplify, self.wide)

    def widened(self) -> Dialect:
        """The same with indices of 64 bits."""
        return dataclasses.replace(self, wide=True)


HOSTED = Dialect()
