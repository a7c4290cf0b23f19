"""How much of a case the device's generated code computes: what ran on numpy kernels, what on the host, and why.

*Generated*: every operator of the compiled graph is one that the device's backend takes on at least one of its samples
(its support table), or that the host has a routine in C for, or becomes one where the shapes are known. So the cases
that say whether generated code is whole are known without a list of names; an operator without generated code at all
(non-maximum suppression) is not among them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx import ModelProto

from byoc.codegen.c.backend import CBackend
from byoc.codegen.c.routines.registry import routine_names
from byoc.contract.registration import get_backend
from byoc.contract.support_table import support_table
from byoc.driver.bytecode.control import with_externs
from byoc.driver.bytecode.outline import outlined
from byoc.driver.compiler.integers import simplified
from byoc.driver.model import module_of
from byoc.ir.op import OPS, Op
from byoc.relay.expr import Call, Function
from byoc.relay.traverse import post_order
from byoc.runtime.library import Library
from byoc.runtime.opencl.module import OpenCLModule

# all of a case by kernels of the device; some; none; nothing is left to compute but constants and views
PLACES = ON_DEVICE, IN_PARTS, ON_HOST, FOLDED = ("on the device", "in parts", "on the host", "nothing to compute")
WORTH = "size"  # the code of a call that the backend generates, and leaves to the host because it is too small


@dataclass(frozen=True)
class Coverage:
    """What of a case generated code of the device does not compute.

    *kernels* has the functions on numpy kernels with the reason of each; *host* the calls that are on the host, beside
    a device, with the codes of the reasons. *missing* are the operators without generated code on the device, whatever
    their form. *launches* are the kernels that the device was given in the runs so far, *idle* the functions for it
    that gave it none.
    """

    kernels: Mapping[str, str] = field(default_factory=dict)
    host: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[str] = ()
    launches: int = 0
    idle: Sequence[str] = ()

    @property
    def where(self) -> str:
        """Where the case ran beside a device, one of ``PLACES``, by the kernels that were launched there."""
        if not self.whole:
            return IN_PARTS if self.launches else ON_HOST
        return ON_DEVICE if self.launches else FOLDED

    @property
    def generated(self) -> bool:
        """Whether every operator of the case has generated code in some form."""
        return not self.missing

    @property
    def whole(self) -> bool:
        """Whether generated code of the device computes all of it."""
        return not self.kernels and not self.host


def coverage(model: ModelProto, library: Library, targets: Sequence[str]) -> Coverage:
    """The coverage of *library*, which was compiled of *model* for *targets* (the host last) and has run."""
    kernels: dict[str, str] = {}
    host: dict[str, str] = {}
    for report in _reports(library.report, ""):
        kernels.update(report.kernels)
        for call, codes in report.host.items():
            host[call] = ", ".join(codes)
    modules = [m for m in library.module.walk() if isinstance(m, OpenCLModule)]
    idle = [s for m in modules for s in m.symbols if not _launched(m.counts_of(s))]
    launches = _launched(library.device_counts)
    return Coverage(kernels, host, missing_operators(model, targets), launches, tuple(idle))


def _launched(counts: Mapping[str, int]) -> int:
    return counts.get("launches", 0) + counts.get("recorded", 0)


@dataclass(frozen=True)
class _Reasons:
    """What the report of one library says: reasons by function, codes by call."""

    kernels: Mapping[str, str]
    host: Mapping[str, Sequence[str]]


def _reports(report: Mapping[str, Any], place: str) -> Iterator[_Reasons]:
    """What *report* says, and those of the parts of its control flow, whose names begin with *place*."""
    fallbacks, plan = report["host_fallbacks"], report["plan"]
    host = {}
    for number, decision in enumerate(plan["decisions"] if plan["targets"] else ()):
        if decision["target"] is None:
            host[f"{place}{decision['operator']} {number}"] = _codes(decision["verdicts"])
    yield _Reasons({f"{place}{name}": reason for name, reason in fallbacks.items()}, host)
    for module in report.get("control_flow", ()):
        for name, part in module["parts"].items():
            yield from _reports(part, f"{place}{name}/")


def _codes(verdicts: Sequence[Mapping[str, Sequence[Mapping[str, str]]]]) -> list[str]:
    return sorted({reason["code"] for verdict in verdicts for reason in verdict["reasons"]}) or ["no target"]


def missing_operators(model: ModelProto, targets: Sequence[str]) -> tuple[str, ...]:
    """The operators of the compiled graph of *model* for which the first of *targets* never has generated code."""
    accelerators = [target for target in targets if target != "c"]
    mod = simplified(with_externs(outlined(module_of(model))), accelerators)
    found = {
        node.op.name
        for function in mod.functions.values()
        if isinstance(function, Function)
        for node in post_order(function)
        if isinstance(node, Call) and isinstance(node.op, Op)
    }
    return tuple(sorted(name for name in found if not _forms(name) & generated_operators(targets[0])))


def _forms(name: str) -> frozenset[str]:
    """*name*, what the operator is where the shapes in its operands are known, and its leading form."""
    traits = OPS[name].traits
    return frozenset([name, *(form.name for form in (traits.static_form, traits.leading_form) if form is not None)])


@functools.cache
def generated_operators(target: str) -> frozenset[str]:
    """The operators that the backend *target* takes on at least one of their samples, or would take were it larger.

    Of ``c`` also those for which the host's functions have routines.
    """
    backend = get_backend(target)
    taken = (row for row in support_table(backend).operators if row.taken or {r.code for r in row.reasons} == {WORTH})
    return frozenset((*(row.name for row in taken), *(routine_names() if isinstance(backend, CBackend) else ())))


__all__ = ["PLACES", "Coverage", "coverage", "generated_operators", "missing_operators"]
