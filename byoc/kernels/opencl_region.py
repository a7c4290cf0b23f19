"""A region of kernels in OpenCL C as one program: the kernels, each for its call, and the plan of their launches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.codegen.c.region_source import dim_text, signature_of_steps, size_names, size_text
from byoc.codegen.opencl.device.language import TYPES as OPENCL_TYPES
from byoc.contract.region_steps import RegionSteps, Step
from byoc.contract.signature import spec_of
from byoc.errors import CompileError, InternalError
from byoc.kernels.choice import given_attributes
from byoc.kernels.macros import between, heading
from byoc.partition.places.kernel import Kernel
from byoc.partition.places.source import OpenCLSource
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.core.strict_json import MOST_NUMBER
from byoc.runtime.opencl.launches import Bound, Buffer, FunctionPlan, Launch, Variant
from byoc.runtime.opencl.module import OpenCLModule
from byoc.runtime.opencl.numbers import Number

_LOCAL = 64  # work-items of a group, where nothing else is said
_FP64 = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"


def opencl_module(region: RegionSteps, kernels: Sequence[Kernel]) -> OpenCLModule:
    """The module of *region*, whose steps are computed by *kernels*, all of source in OpenCL C. Needs no device."""
    specs = [spec_of(f"value{k}", ty) for k, ty in enumerate(region.types)]
    signature = signature_of_steps(region, specs)
    first_output = region.inputs + len(region.constants)
    buffer = {n: n for n in range(first_output)}
    for k, number in enumerate(region.outputs):
        buffer.setdefault(number, first_output + k)
    temporaries = [n for step in region.steps for n in step.outputs if n not in buffer]
    for k, number in enumerate(temporaries):
        buffer[number] = first_output + len(region.outputs) + k
    order = [*range(first_output), *region.outputs, *temporaries]
    parts, launches = [], []
    for k, (step, kernel) in enumerate(zip(region.steps, kernels, strict=True)):
        text, launch = _kernel(f"kernel_{k}", step, kernel, specs, buffer)
        parts.append(text)
        launches.append(launch)
    for k, number in enumerate(region.outputs):
        if buffer[number] != first_output + k:  # an input, a constant, or an output that is one already
            text, launch = _copy(f"copy_{k}", specs[number], buffer[number], first_output + k)
            parts.append(text)
            launches.append(launch)
    source = "\n".join(parts)
    plan = FunctionPlan(signature, tuple(Buffer(_bytes(specs[n])) for n in order), tuple(launches))
    return OpenCLModule(_FP64 + source if "double" in source else source, (plan,), dict(region.constants))


def _kernel(
    name: str, step: Step, kernel: Kernel, specs: Sequence[TensorSpec], buffer: dict[int, int]
) -> tuple[str, Launch]:
    run = kernel.run
    if not isinstance(run, OpenCLSource):
        raise InternalError(f"{kernel} is no source in OpenCL C")
    tensors = [specs[k] for k in (*step.inputs, *step.outputs)]
    head = heading(
        name,
        tensors[: len(step.inputs)],
        tensors[len(step.inputs) :],
        given_attributes(kernel, step.call),
        OPENCL_TYPES,
    )
    text = f'{head}#line 1 "{kernel}"\n{run.text}\n{between(head + run.text)}'
    items = _elements(specs[step.outputs[0]]) if run.items is None else _items(kernel, run.items(step.call))
    buffers = tuple(buffer[k] for k in (*step.inputs, *step.outputs))
    variants, dtypes = _variants(str(kernel), name, items, run.local), tuple(t.dtype for t in tensors)
    return text, Launch(buffers, tuple(size_names(tensors)), variants, whole=True, dtypes=dtypes)


def _variants(schedule: str, name: str, items: Number, local: int | None) -> tuple[Variant, ...]:
    """As many work-items as *items* and no more, in groups of 64 where these fill them; with *local*, whole groups.

    A kernel whose vendor said nothing of groups need not look whether its item is one too many.
    """
    if local is not None:
        return (Variant(schedule, name, items, local),)
    exactly = Variant(schedule, name, items, 0)
    if isinstance(items, int):
        return (Variant(schedule, name, items, _LOCAL),) if items % _LOCAL == 0 else (exactly,)
    return (Variant(schedule, name, items, _LOCAL, when=(Bound(["mod", items, _LOCAL], 0, 0),)), exactly)


def _items(kernel: Kernel, found: object) -> int:
    """The work-items that a kernel's ``items`` gave. Raises CompileError for what is no number of them."""
    if isinstance(found, int | np.integer) and not isinstance(found, bool) and 0 <= found <= MOST_NUMBER:
        return int(found)
    raise CompileError(f"items= of kernel {kernel} gave {found!r}: expected a number of work-items, 0 to {MOST_NUMBER}")


def _copy(name: str, spec: TensorSpec, source: int, target: int) -> tuple[str, Launch]:
    names, kind = size_names([spec]), OPENCL_TYPES[spec.dtype]
    parameters = "".join(f", const long {dim_text(d)}" for d in names)
    text = (
        f"__kernel void {name}(__global const {kind} *given, __global {kind} *out{parameters}) {{\n"
        f"  if (get_global_id(0) < {size_text(spec)}) out[get_global_id(0)] = given[get_global_id(0)];\n}}\n"
    )
    variant = Variant("copy", name, _elements(spec), _LOCAL)
    return text, Launch((source, target), tuple(names), (variant,), whole=True)


def _elements(spec: TensorSpec) -> Number:
    found: Number = 1
    for dim in spec.shape:
        assert dim is not None  # since choice.py
        found = found * dim if isinstance(found, int) and isinstance(dim, int) else ["mul", found, dim]
    return found


def _bytes(spec: TensorSpec) -> Number:
    count, size = _elements(spec), numpy_dtype(spec.dtype).itemsize
    return count * size if isinstance(count, int) else ["mul", count, size]
