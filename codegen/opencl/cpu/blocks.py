"""The groups of a program as kernels for a processor: one for each block of C's statements, between two barriers.

Each is launched as some work-groups of one work-item, which share its loops as C's threads do. Equal groups have the
same kernels, each written once; a kernel's parameters are those of the group's tensors and sizes that it names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from byoc.codegen.c.rows.rows import rows_of
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.toolchain.unit_flags import sums_products
from byoc.codegen.c.vectors.math import POLYNOMIALS
from byoc.codegen.c.vectors.vectors import VectorPart
from byoc.codegen.c.whole.schedule import stage_blocks
from byoc.codegen.c.whole.unit import group_sources
from byoc.codegen.c.winograd.sizes import META
from byoc.codegen.kernel.expr_text import ExprWriter, outside_name
from byoc.codegen.kernel.group_key import Key, group_key
from byoc.codegen.kernel.loops import Barrier, For, Stmt
from byoc.codegen.kernel.program import Group, group_sizes
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.kernel.spelling import Language
from byoc.codegen.kernel.writer import Names, Writer
from byoc.codegen.opencl.cpu.language import (
    BLOCK_RESERVED,
    CONTRACT,
    PART,
    PARTS,
    block_language,
    vector_definitions,
)
from byoc.codegen.opencl.cpu.statements import BlockWriter
from byoc.codegen.opencl.device.pointers import Pointer
from byoc.errors import UnsupportedError
from byoc.ir.types import dtype_bytes
from byoc.te import Size, Tensor


def meets_between_rows(group: Group) -> bool:
    """Whether C's schedules take stages of *group* one by one."""
    return len(list(rows_of(group.stages))) > 1


@dataclass(frozen=True)
class BlockKernel:
    """A kernel, its text (empty where it was written before), and its arguments in order.

    It only reads the *sources*; a *target* may be one that a kernel before it filled. One *in_steps*, of a recurrence,
    is for one work-group alone.
    """

    name: str
    text: str
    sources: tuple[Tensor, ...]
    targets: tuple[Tensor, ...]
    sizes: tuple[str, ...]
    checks: bool
    in_steps: bool


@dataclass(frozen=True)
class _Sought:
    """What the kernels of a group are written from: see ``CpuKernels.kernels``."""

    group: Group
    sources: Sequence[Tensor]
    numbers: Sequence[int]
    constants: Collection[Tensor]
    machine: Machine


@dataclass(frozen=True)
class _Written:
    """A kernel as it was written: its arguments by their places among the group's tensors."""

    name: str
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    sizes: tuple[str, ...]
    checks: bool
    in_steps: bool


class CpuKernels:
    """The kernels of a source for *machine*, each once, their names of *kernels*.

    Scalars are spelled as in *opencl*; ``helpers`` are those of them that the kernels call.
    """

    def __init__(self, machine: Machine, opencl: Language, reserved: Collection[str], kernels: Names):
        self.machine, self.language, self._kernels = machine, block_language(opencl), kernels
        self._reserved = frozenset(reserved) | BLOCK_RESERVED
        self.vectors: dict[VectorPart, None] = {}
        self.helpers: dict[tuple[str, str], None] = {}
        self._known: dict[Key, list[_Written]] = {}

    def definitions(self) -> list[str]:
        """What stands before the kernels."""
        return [vector_definitions(self.vectors)] if self._known else []

    def kernels(
        self, group: Group, constants: Collection[Tensor], numbers: Sequence[int], machine: Machine | None = None
    ) -> tuple[BlockKernel, ...] | None:
        """The kernels of *group*, in order; None where a function in it has no text for vectors or in OpenCL C.

        *numbers* are those of its checks of indices in the program; *machine* is another than that of the source.
        """
        machine = machine or self.machine
        sources = group_sources(group)
        tensors = (*sources, *group.stored)
        key = (*group_key(group, constants), *numbers, machine.vector_bytes)
        texts: dict[str, str] = {}
        if key not in self._known:
            try:
                texts = self._write(key, _Sought(group, sources, numbers, constants, machine))
            except UnsupportedError:
                return None
        return tuple(
            BlockKernel(
                w.name,
                texts.get(w.name, ""),
                tuple(tensors[k] for k in w.sources),
                tuple(tensors[k] for k in w.targets),
                w.sizes,
                w.checks,
                w.in_steps,
            )
            for w in self._known[key]
        )

    def _write(self, key: Key, sought: _Sought) -> dict[str, str]:
        """The texts of the kernels of *sought* by their names, which are known from then on."""
        simplify, group = Simplifier(), sought.group
        blocks = list(stage_blocks(group.stages, simplify, sought.machine, group.local))
        texts, written = {}, []
        for number, block in enumerate(blocks):
            suffix = f"_{number}" if len(blocks) > 1 else ""
            exprs = ExprWriter(self.language, Names(self._reserved), simplify)
            one = _Block(sought, exprs)
            text = one.body(block)
            self.vectors.update(one.vectors)
            self.helpers.update(one.helpers)
            name = self._kernels.fresh(f"kernel_{group.name}{suffix}")
            writer = Writer()
            with writer.block(f"{one.head(name)} {{"):
                writer.lines(text)
            texts[name] = writer.text()
            written.append(_Written(name, one.sources, one.targets, one.sizes, one.checks, _in_steps(block)))
        self._known[key] = written
        return texts


def _in_steps(block: Sequence[Stmt]) -> bool:
    """Whether *block* is a loop of steps, between which all threads of a team would meet."""
    return any(isinstance(s, For) and any(isinstance(inner, Barrier) for inner in s.body) for s in block)


class _Block:
    """The text of one kernel of a group."""

    def __init__(self, sought: _Sought, exprs: ExprWriter):
        group, sources, constants = sought.group, sought.sources, sought.constants
        self.group, self.numbers, self.exprs = group, sought.numbers, exprs
        names, types = exprs.names, exprs.language.types
        exprs.checks = group.checks
        exprs.apart = not any(META in s.meta for s in group.stages)
        for k in range(len(exprs.checks)):
            names.reserve(outside_name(k))
        named = [*(names(t, f"p{k}") for k, t in enumerate(sources)), *(names(t, t.name) for t in group.stored)]
        self._pointers = [
            Pointer.of(names, name, types[t.dtype], dtype_bytes(t.dtype), k >= len(sources), t in constants)
            for k, (name, t) in enumerate(zip(named, (*sources, *group.stored), strict=True))
        ]
        self._inputs = len(sources)
        self._sizes = {s: f"const long {names(Size(s), s)}" for s in group_sizes(group)}
        self.vectors: dict[VectorPart, None] = {}
        self._words: set[str] = set()

    def body(self, block: Sequence[Stmt]) -> str:
        """The lines of the kernel."""
        inside = Writer()
        statements = BlockWriter(inside, self.exprs)
        statements.block(block)
        self.vectors = statements.vectors
        for k, extent in self.exprs.extents.items():
            inside.line(f"report_outside(found, {self.numbers[k]}, {outside_name(k)}, {extent});")
        self._words = set(re.findall(r"\w+", inside.text()))
        lines = [f"const long {PART} = get_group_id(0), {PARTS} = get_num_groups(0);"] if PART in self._words else []
        lines += [f"ulong {outside_name(k)} = 0;" for k in self.exprs.extents]
        lines += [line for k in self._used() for line in self._pointers[k].lines]
        if sums_products(self.group.stages) or any(n in POLYNOMIALS for n, _, _ in self.vectors):
            lines.insert(0, CONTRACT)
        return "\n".join([*lines, inside.text()])

    @property
    def helpers(self) -> dict[tuple[str, str], None]:
        return self.exprs.helpers

    @property
    def checks(self) -> bool:
        return bool(self.exprs.extents)

    @property
    def sources(self) -> tuple[int, ...]:
        """Which of the group's tensors it only reads."""
        return tuple(k for k in self._used() if k < self._inputs)

    @property
    def targets(self) -> tuple[int, ...]:
        """Which of the tensors that the group fills it names."""
        return tuple(k for k in self._used() if k >= self._inputs)

    @property
    def sizes(self) -> tuple[str, ...]:
        """The named sizes that it takes."""
        return tuple(s for s, p in self._sizes.items() if p.split()[-1] in self._words)

    def _used(self) -> list[int]:
        return [k for k, p in enumerate(self._pointers) if p.name in self._words]

    def head(self, name: str) -> str:
        """The line before its body."""
        used = [self._pointers[k] for k in self._used()]
        parameters = [*(p.parameter for p in used), *(b for p in used for b in p.begins)]
        parameters += [self._sizes[s] for s in self.sizes]
        parameters += ["__global long *restrict found"] if self.checks else []
        return f"__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void {name}({', '.join(parameters)})"
