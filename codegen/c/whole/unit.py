"""A translation unit: the C function of one group, and all that it needs to be compiled alone.

Its text does not depend on other groups nor on the model: parameters are called ``p0``, ``p1``, ... and ``const_0``,
..., and the function's name ends in the hash of its text. So a block that a model repeats, or that another model has
too, is compiled once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from byoc.codegen.c.language.dialect import HOSTED, Dialect
from byoc.codegen.c.language.spellings import RESERVED, SUPPORT, TYPES
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.toolchain.unit_flags import (
    NO_CONTRACTION,
    computes_on_integers,
    gathers,
    loads_under_a_condition,
    sums_products,
)
from byoc.codegen.c.vectors.math import POLYNOMIALS
from byoc.codegen.c.vectors.vectors import VectorPart, vector_support
from byoc.codegen.c.whole.schedule import stage_blocks
from byoc.codegen.c.whole.statements import StatementWriter
from byoc.codegen.c.whole.support import PREAMBLE
from byoc.codegen.c.winograd.sizes import META
from byoc.codegen.kernel.expr_text import check_name, outside_name
from byoc.codegen.kernel.group_key import Key, group_key
from byoc.codegen.kernel.loops import Barrier, CallFunction, WrittenFunction, in_order
from byoc.codegen.kernel.program import Group, Program, RoutineGroup, group_sizes
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.kernel.spelling import short_name
from byoc.codegen.kernel.writer import Names, Writer, comment_text
from byoc.te import Size, Tensor
from byoc.te.walk import loaded_tensors

HASH_DIGITS = 12
_NAME = "group_function_name"  # stands for the name while the text is hashed


@dataclass(frozen=True)
class Unit:
    """A group's C function.

    ``signature`` is its prototype without the semicolon, ``text`` its definition, ``notation`` its types in our
    notation. ``vectors`` and ``helpers`` are the definitions that it uses, by their keys. ``wraps`` says that it
    computes on integers, whose overflow must wrap. ``local_bytes`` are those of its local arrays, which the stack has.
    ``checks`` is how many checks of indices it makes, whose numbers in the program are its parameters behind the sizes.
    ``functions`` are the texts of those written by hand that it calls, each behind what it calls.
    ``gathers`` says that it loads from places that are loaded, ``masks`` that it has loads under a condition, and
    ``contracts`` that it has sums of products or functions whose products and sums are contracted (``rounding.py``).
    """

    name: str
    signature: str
    text: str
    notation: str
    vectors: tuple[VectorPart, ...]
    helpers: tuple[tuple[str, str], ...]
    wraps: bool
    local_bytes: int = 0
    checks: int = 0
    gathers: bool = False
    masks: bool = False
    contracts: bool = True
    functions: tuple[str, ...] = ()

    @property
    def separates(self) -> bool:
        """Whether scalar products are kept from being contracted."""
        return any(name == "rounded" for name, _ in self.helpers)

    def source(self) -> str:
        """The unit as a source of its own."""
        parts = [PREAMBLE, *definitions([self]), f"{self.comment(())}{self.text}"]
        return "\n".join(parts)

    def comment(self, origins: Iterable[str]) -> str:
        """The comment above the function: its types, and the ONNX nodes that it computes."""
        shown = ", ".join(origins)
        if len(shown) > LONGEST_ORIGIN:
            shown = f"{shown[:LONGEST_ORIGIN]}..."
        return f"/* {comment_text(f'{self.notation}; from {shown}' if shown else self.notation)} */\n"


LONGEST_ORIGIN = 400


@dataclass(frozen=True)
class GroupCall:
    """A call of a unit's function: the tensors in the order of its parameters, the sizes after them, and the checks."""

    unit: Unit
    sources: tuple[Tensor, ...]
    stages: tuple[Tensor, ...]
    sizes: tuple[str, ...]
    origin: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()


def definitions(units: Sequence[Unit], more_helpers: Sequence[tuple[str, str]] = ()) -> list[str]:
    """The vector types and helpers that *units* use, and *more_helpers*, each once."""
    vectors = tuple(dict.fromkeys(v for u in units for v in u.vectors))
    helpers = dict.fromkeys((*(h for u in units for h in u.helpers), *more_helpers))
    return [
        *(f"{text}\n" for text in vector_support(vectors)),
        *(f"{SUPPORT[n](dtype)}\n" for n, dtype in helpers),
        *function_texts(units),
    ]


def function_texts(units: Sequence[Unit]) -> list[str]:
    """The functions written by hand that *units* call, each once."""
    return list(dict.fromkeys(text for u in units for text in u.functions))


@dataclass
class Units:
    """The units of a library, each once; equal groups get the same one."""

    machine: Machine
    dialect: Dialect = HOSTED
    _by_key: dict[Key, Unit] = field(default_factory=dict)

    def calls(self, program: Program) -> list[GroupCall]:
        """The calls of the groups of *program*, in order."""
        constants = frozenset(t for t, _ in program.constants)
        return [self._call(group, constants) for group in program.parts]

    def _call(self, group: Group, constants: Collection[Tensor]) -> GroupCall:
        sources = group_sources(group)
        sizes = group_sizes(group)
        if isinstance(group, RoutineGroup):  # by its text, for statements have no key
            unit = write_unit(group, sources, sizes, constants, self.machine, self.dialect)
            return GroupCall(unit, sources, group.stored, sizes, group.origin, group.checks)
        key = group_key(group, constants)
        if key not in self._by_key:
            self._by_key[key] = write_unit(group, sources, sizes, constants, self.machine, self.dialect)
        return GroupCall(self._by_key[key], sources, group.stored, sizes, group.origin, group.checks)


def write_unit(
    group: Group,
    sources: Sequence[Tensor],
    sizes: Sequence[str],
    constants: Collection[Tensor],
    machine: Machine,
    dialect: Dialect = HOSTED,
) -> Unit:
    """The unit of *group*. Raises CompileError for what C cannot express."""
    if not dialect.plain:
        return _write_unit(group, sources, sizes, constants, machine, dialect)
    from byoc.codegen.c.language.plain_expr import IndexTooWideError

    try:
        return _write_unit(group, sources, sizes, constants, machine, dialect)
    except IndexTooWideError:
        return _write_unit(group, sources, sizes, constants, machine, dialect.widened())


def _write_unit(
    group: Group,
    sources: Sequence[Tensor],
    sizes: Sequence[str],
    constants: Collection[Tensor],
    machine: Machine,
    dialect: Dialect,
) -> Unit:
    names, simplify = Names(RESERVED), Simplifier()
    exprs = dialect.expressions(names, simplify)
    exprs.checks = group.checks
    exprs.apart = exprs.apart and not any(META in s.meta for s in group.stages)
    for k in range(len(group.checks)):
        names.reserve(outside_name(k))
        names.reserve(check_name(k))
    routine = group if isinstance(group, RoutineGroup) else None
    for function in in_order(_functions(routine)):
        names.reserve(function.name)
    parameters = _parameters(group, sources, sizes, constants, names)
    parameters += dialect.check_parameters(len(group.checks))
    parameters += ["const Team *team"] if dialect.team else []
    writer = Writer()
    statements = StatementWriter(writer, exprs, dialect)
    blocks = stage_blocks(group.stages, simplify, machine, group.local) if routine is None else routine.blocks
    for k, block in enumerate(blocks):
        if k:
            statements.block([Barrier()])
        statements.block(block)
    for k, extent in exprs.extents.items():
        writer.line(dialect.check_report(k, extent))
    words = set(re.findall(r"\w+", writer.text()))
    for unused in (name for name in map(_parameter_name, parameters) if name not in words):
        writer.line(f"(void){unused};")
    signature = f"void {_NAME}({', '.join(parameters)})"
    body = Writer()
    with body.block(f"{signature} {{"):
        for k in exprs.extents:
            body.line(f"uint64_t {outside_name(k)} = 0;")
        body.lines(writer.text())
    bodies = [s.body for s in group.stages if s.body is not None]
    wraps = any(map(computes_on_integers, bodies)) or (routine is not None and routine.wraps)
    text = body.text()
    contracts = sums_products(group.stages) or any(n in POLYNOMIALS for n, _, _ in statements.vectors)
    digest = hashlib.sha256(f"{wraps}\0{'' if contracts else NO_CONTRACTION}{text}".encode()).hexdigest()[:HASH_DIGITS]
    name = f"{group.title or group.name}_{digest}"
    functions = tuple(f"{function.write(exprs)}\n" for function in statements.functions)
    return Unit(
        name,
        signature.replace(_NAME, name, 1),
        text.replace(_NAME, name, 1),
        _notation(group, sources, names),
        tuple(statements.vectors),
        tuple(exprs.helpers),
        wraps,
        statements.local_bytes,
        len(group.checks),
        any(map(gathers, bodies)),
        any(map(loads_under_a_condition, bodies)),
        contracts,
        functions,
    )


def _functions(routine: RoutineGroup | None) -> list[WrittenFunction]:
    """The functions that the statements of a *routine* call."""
    blocks = () if routine is None else routine.blocks
    return [s.function for block in blocks for s in block if isinstance(s, CallFunction)]


def _parameters(
    group: Group, sources: Sequence[Tensor], sizes: Sequence[str], constants: Collection[Tensor], names: Names
) -> list[str]:
    fixed = [t for t in sources if t in constants]
    free = [t for t in sources if t not in constants]
    hints = {t: f"const_{k}" for k, t in enumerate(fixed)} | {t: f"p{k}" for k, t in enumerate(free)}
    parameters = [f"const {TYPES[t.dtype]} *restrict {names(t, hints[t])}" for t in sources]
    parameters += [f"{TYPES[t.dtype]} *restrict {names(t, t.name)}" for t in group.stored]
    parameters += [f"int64_t {names(Size(s), s)}" for s in sizes]
    return parameters


def _parameter_name(parameter: str) -> str:
    return str(re.findall(r"\w+", parameter)[-1])


def group_sources(group: Group) -> tuple[Tensor, ...]:
    """The tensors that *group* reads and does not fill, in the order of their first use."""
    if isinstance(group, RoutineGroup):
        return tuple(dict.fromkeys(group.reads))
    return tuple(dict.fromkeys(t for s in group.stages for t in loaded_tensors(s.element) if t not in group.stages))


def _notation(group: Group, sources: Sequence[Tensor], names: Names) -> str:
    """``p0: f32[1, 3, 8, 8], const_0: … -> relu: …``"""
    parts = [f"{names(t, t.name)}: {_type(t)}" for t in sources]
    result = group.stages[-1]
    return f"{', '.join(parts)} -> {names(result, result.name)}: {_type(result)}".strip()


def _type(tensor: Tensor) -> str:
    dims = ", ".join(d.name if isinstance(d, Size) else str(d) if isinstance(d, int) else "?" for d in tensor.shape)
    return f"{short_name(tensor.dtype)}[{dims}]"
