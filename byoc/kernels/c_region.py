"""A region of kernels in C as one C file: the kernels, each for its call, and a function that calls them in turn."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.contract.region_steps import RegionSteps, Step
from byoc.contract.signature import spec_of
from byoc.errors import InternalError
from byoc.kernels.macros import C_TYPES, between, dim_text, heading, size_names, size_text
from byoc.partition.places.kernel import Kernel
from byoc.partition.places.source import CSource
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.dso.contract import contract_of, contract_text
from byoc.runtime.dso.module import DsoModule

_ALIGNMENT = 64  # bytes, of what lies between kernels
_INCLUDES = "\n".join(f"#include <{name}.h>" for name in ("math", "stdbool", "stddef", "stdint", "string"))


def c_module(region: RegionSteps, kernels: Sequence[Kernel]) -> DsoModule:
    """The compiled module of *region*, whose steps are computed by *kernels*, all of source in C.

    Raises CompileError with the compiler's first error, which names the kernel.
    """
    specs = [spec_of(f"value{k}", ty) for k, ty in enumerate(region.types)]
    signature = signature_of_steps(region, specs)
    parts = [_INCLUDES]
    for k, (step, kernel) in enumerate(zip(region.steps, kernels, strict=True)):
        parts.append(kernel_text(f"kernel_{k}", step, kernel, specs))
    parts.append(_driver(region, signature, specs))
    source = "\n".join(parts)
    compiler = find_compiler()
    carried = (
        f'\nconst char byoc_contract[] = "{contract_text(contract_of([signature], None, compiler.sanitizers))}";\n'
    )
    return DsoModule(
        compiler.build(source + carried),
        [signature],
        source,
        dict(region.constants),
        compiler.processor(),
        sanitizers=compiler.sanitizers,
    )


def signature_of_steps(region: RegionSteps, specs: Sequence[TensorSpec]) -> Signature:
    """What the function of *region* takes and gives."""
    first = region.inputs + len(region.constants)
    return Signature(
        region.symbol,
        tuple(specs[: region.inputs]),
        tuple(TensorSpec(f"out{k}", specs[n].shape, specs[n].dtype) for k, n in enumerate(region.outputs)),
        tuple(
            TensorSpec(name, spec.shape, spec.dtype)
            for name, spec in zip(region.constants, specs[region.inputs : first], strict=True)
        ),
    )


def kernel_text(name: str, step: Step, kernel: Kernel, specs: Sequence[TensorSpec]) -> str:
    """The text of *kernel* for one call, under that name, in C."""
    if not isinstance(kernel.run, CSource):
        raise InternalError(f"{kernel} is no source in C")
    head = heading(name, [specs[k] for k in step.inputs], [specs[k] for k in step.outputs], step.call, C_TYPES)
    return f'{head}#line 1 "{kernel}"\n{kernel.run.text}\n{between(head + kernel.run.text)}'


def _driver(region: RegionSteps, signature: Signature, specs: Sequence[TensorSpec]) -> str:
    names = size_names([*signature.inputs, *signature.outputs])
    sizes = [f"  const int64_t {dim_text(name)} = sizes[{k}];" for k, name in enumerate(names)]
    first_output = region.inputs + len(region.constants)
    place = {n: f"args[{n}]" for n in range(first_output)}
    for k, number in enumerate(region.outputs):
        place.setdefault(number, f"args[{first_output + k}]")
    temporaries = [n for step in region.steps for n in step.outputs if n not in place]
    memory = []
    for number in temporaries:
        memory.append(f"  uint8_t *value_{number} = workspace + used;")
        memory.append(f"  used += ({_bytes(specs[number])} + {_ALIGNMENT - 1}) / {_ALIGNMENT} * {_ALIGNMENT};")
        place[number] = f"value_{number}"
    calls = []
    for k, step in enumerate(region.steps):
        values = [f"(const {C_TYPES[specs[n].dtype]} *){place[n]}" for n in step.inputs]
        values += [f"({C_TYPES[specs[n].dtype]} *){place[n]}" for n in step.outputs]
        values += [dim_text(d) for d in size_names([specs[n] for n in (*step.inputs, *step.outputs)])]
        calls.append(f"  kernel_{k}({', '.join(values)});")
    copies = [
        f"  memcpy(args[{first_output + k}], {place[n]}, {_bytes(specs[n])});"
        for k, n in enumerate(region.outputs)
        if place[n] != f"args[{first_output + k}]"
    ]
    unused = ["  (void)args; (void)sizes; (void)workspace; (void)team;", *(f"  (void){dim_text(n)};" for n in names)]
    needs = [line for line in memory if "used +=" in line]
    symbol = region.symbol
    return "\n".join(
        [
            f"int64_t {symbol}_workspace(const int64_t *sizes) {{",
            "  (void)sizes;",
            *sizes,
            *(f"  (void){dim_text(n)};" for n in names),
            "  int64_t used = 0;",
            *needs,
            "  return used;",
            "}",
            f"int32_t {symbol}(void **args, const int64_t *sizes, uint8_t *workspace, const void *team) {{",
            *sizes,
            *unused,
            *(["  int64_t used = 0;", *memory] if memory else []),
            *calls,
            *copies,
            "  return 0;",
            "}",
            "",
        ]
    )


def _bytes(spec: TensorSpec) -> str:
    return f"{size_text(spec)} * {numpy_dtype(spec.dtype).itemsize}"
