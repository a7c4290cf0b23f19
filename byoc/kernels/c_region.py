"""A region of kernels in C as one C file: the kernels, each for its call, and a function that calls them in turn."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.c.region_source import C_TYPES, compiled_region, dim_text, size_names
from byoc.contract.region_steps import RegionSteps
from byoc.contract.signature import spec_of
from byoc.errors import InternalError
from byoc.kernels.choice import given_attributes
from byoc.kernels.macros import between, heading
from byoc.partition.places.kernel import Kernel
from byoc.partition.places.source import CSource
from byoc.runtime.dso.module import DsoModule

# a pointer to another type, or a status that nobody reads, would be wrong numbers without a word
TYPED_POINTERS = '#pragma GCC diagnostic error "-Wincompatible-pointer-types"'
RETURNS_NOTHING = (
    "  _Static_assert(__builtin_types_compatible_p(__typeof__({call}), void), "
    '"KERNEL is a function that returns void");'
)


def c_module(region: RegionSteps, kernels: Sequence[Kernel]) -> DsoModule:
    """The compiled module of *region*, whose steps are computed by *kernels*, all of source in C.

    Raises CompileError with the compiler's first error, which names the kernel.
    """
    specs = [spec_of(f"value_{k}", ty) for k, ty in enumerate(region.types)]
    texts, statements = [], []
    for k, (step, kernel) in enumerate(zip(region.steps, kernels, strict=True)):
        if not isinstance(kernel.run, CSource):
            raise InternalError(f"{kernel} is no source in C")
        inputs, outputs = [specs[n] for n in step.inputs], [specs[n] for n in step.outputs]
        head = heading(f"kernel_{k}", inputs, outputs, given_attributes(kernel, step.call), C_TYPES)
        texts.append(f'{head}#line 1 "{kernel}"\n{kernel.run.text}\n{between(head + kernel.run.text)}')
        values = [f"value_{n}" for n in (*step.inputs, *step.outputs)]
        values += [dim_text(name) for name in size_names([*inputs, *outputs])]
        call = f"kernel_{k}({', '.join(values)})"
        lines = [f'#line 1 "the call of {kernel}"', RETURNS_NOTHING.format(call=call), f"  {call};"]
        statements.append("\n".join(lines))
    return compiled_region(region, statements, "\n".join([*texts, TYPED_POINTERS]), [str(k) for k in kernels])
