"""The backend that runs declared kernels: it takes the calls that one fits, and calls them in its regions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from byoc.contract.checks import pattern_entries
from byoc.contract.region_steps import Step, steps_of
from byoc.contract.registration import BACKENDS, get_backend
from byoc.contract.verdict import Verdict, accept, callee_name, place_of, sentence_of
from byoc.errors import CompileError
from byoc.ir.op import OPS
from byoc.ir.span import span_names
from byoc.kernels.c_region import c_module
from byoc.kernels.choice import chosen, count_given, fitting, unknown_attributes, why_not
from byoc.kernels.opencl_region import opencl_module
from byoc.kernels.python_region import python_module
from byoc.partition.cut.casting import asks_for_casts
from byoc.partition.place import HOST, in_host_memory
from byoc.partition.places.kernel import Kernel
from byoc.partition.places.libraries import KernelLibrary, libraries, runnable
from byoc.partition.places.score import as_it_comes
from byoc.partition.places.source import CSource, OpenCLSource
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Function
from byoc.runtime.modules.module import Module
from byoc.runtime.opencl.build import why_unavailable


class KernelBackend(KernelLibrary):
    """Runs the kernels that are declared for its target; register a subclass to give it patterns or limits.

    A region whose kernels are all C, or all OpenCL C, is one program; else each kernel is called from Python, one after
    the other. It takes no options.
    """

    options: Sequence[str] | None = ()

    def __init__(self, name: str = "", target: str = ""):
        self.name = name or self.name
        self.kernels_of = target or self.name

    @property
    def devices(self) -> Sequence[str]:  # type: ignore[override]  # by what was declared until now
        """The host's memory, or an OpenCL device where a kernel needs one."""
        needs_device = any(isinstance(k.run, OpenCLSource) for k in runnable(self.kernels_of))
        return ("opencl",) if needs_device or not _is_host(self) else ("cpu",)

    def supports(self, call: Call) -> Verdict:
        if chosen(call, self.kernels_of) is not None:
            return accept(call)
        reasons = tuple(dict.fromkeys(why_not(call, self.kernels_of)))
        return Verdict(False, callee_name(call), span_names(call.span), reasons)

    def named_operators(self) -> Iterable[tuple[str, str]]:
        """Those of its kernels; composites of the target whose kernels it runs count as its own."""
        own = BACKENDS.get(self.kernels_of)
        rows = {e.name for e in pattern_entries(own)} if own is not None and own is not self else set()
        kernels = runnable(self.kernels_of)
        return [(k.op, f"the kernel {k} ({k.where})") for k in kernels if k.op not in rows]

    def named_attributes(self) -> Iterable[tuple[str, str, str]]:
        """Those that its kernels declare, or name in their text."""
        return [
            (k.op, attribute, f"the kernel {k} ({k.where})")
            for k in runnable(self.kernels_of)
            if k.op in OPS
            for attribute in unknown_attributes(k)
        ]

    def fitting(self, call: Call) -> Sequence[Kernel]:
        """The kernels that may compute *call*, one for each precision and layout in which they do."""
        return fitting(call, self.kernels_of)

    def places(self) -> Sequence[str]:
        """Those of its kernels; what takes a model's numbers and layout as they are is one place."""
        places = (k.place for k in runnable(self.kernels_of))
        found = dict.fromkeys(p if asks_for_casts([str(p)]) else as_it_comes(p) for p in places)
        return [str(place) for place in found] or [f"{self.kernels_of}/any/any"]

    def seconds(self, call: Call) -> float | None:
        found = chosen(call, self.kernels_of)
        return None if found is None or found.seconds is None else found.seconds(call)

    def device_kind(self) -> str | None:
        target = get_backend(self.kernels_of) if self.kernels_of != self.name and self.kernels_of != HOST else None
        return target.device_kind() if target is not None else None

    def unavailable(self) -> str | None:
        return why_unavailable() if "opencl" in self.devices else None

    def compile(self, function: Function, options: Mapping[str, object]) -> Module:
        function = infer_function(function)
        region = steps_of(function)
        kernels = [self._kernel(step) for step in region.steps]
        given = [
            replace(step, inputs=step.given(count_given(kernel, step.call)))
            for step, kernel in zip(region.steps, kernels, strict=True)
        ]
        region = replace(region, steps=given)
        if all(isinstance(k.run, CSource) for k in kernels):
            return c_module(region, kernels)
        if all(isinstance(k.run, OpenCLSource) for k in kernels):
            return opencl_module(region, kernels)
        return python_module(function, region, kernels, self.kernels_of, self.composite_attributes)

    def _kernel(self, step: Step) -> Kernel:
        found = chosen(step.call, self.kernels_of)
        if found is None:
            why = sentence_of(why_not(step.call, self.kernels_of))
            raise CompileError(f"no kernel of {self.kernels_of} computes {place_of(step.call)}: {why}")
        return found


def _is_host(backend: KernelBackend) -> bool:
    known = backend.kernels_of
    return known == backend.name or in_host_memory(known) or all(callable(k.run) for k in runnable(known))


_MADE: dict[tuple[str, str], KernelBackend] = {}


def offered() -> list[str]:
    """The backends of declared kernels that nobody registered."""
    return [name for name, _ in libraries()]


def offer(name: str) -> KernelBackend | None:
    """The backend of that name among :func:`offered`, always the same object."""
    for known, target in libraries():
        if known == name:
            return _MADE.setdefault((name, target), KernelBackend(name, target))
    return None
