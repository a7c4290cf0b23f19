"""A region of C that somebody else wrote, made a module: for vendors who generate source, and for declared kernels.

The statements are the body of one function, in which ``value_0``, ``value_1``, ... are pointers to the tensors of
:class:`byoc.contract.RegionSteps`, by their numbers and of their types: what is between steps has memory of its own,
which is aligned to 64 bytes. Named sizes are variables (:func:`dim_text`), so that free sizes need nothing special.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from byoc.codegen.c.language.spellings import TYPES
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.kernel.lower import DTYPES
from byoc.contract.region_steps import RegionSteps
from byoc.contract.signature import spec_of
from byoc.errors import CompileError
from byoc.runtime.core.ndarray import ALIGNMENT, numpy_dtype
from byoc.runtime.core.signature import Dim, Signature, TensorSpec
from byoc.runtime.dso.checked_steps import CalledKernel, CalledKernels
from byoc.runtime.dso.module import DsoModule
from byoc.runtime.dso.whole_program import contract_of, contract_text

HALF = "_Float16"  # of C23's annex H, in GCC from version 12 and in Clang
C_TYPES: Mapping[str, str] = {**{dtype: name for dtype, name in TYPES.items() if dtype in DTYPES}, "float16": HALF}
NO_HALF = """#ifndef __FLT16_MAX__
#error this compiler has no _Float16 for this processor, which source in C has for float16: take GCC 12 or Clang
#endif"""
INCLUDES = "\n".join(f"#include <{name}.h>" for name in ("math", "stdbool", "stddef", "stdint", "string"))


def compiled_region(
    region: RegionSteps, statements: Sequence[str], before: str = "", names: Sequence[str] = ()
) -> DsoModule:
    """The module of *region*, computed by *statements* of C.

    Args:
        region: what ``steps_of`` gave.
        statements: the body, which fills ``value_<n>`` for the outputs of each step.
        before: what stands before the function: helpers, in C.
        names: of the statements, where each step has one: ``BYOC_CHECK`` then looks at each and names the wrong one.
            Each is a block, which uses values, sizes and what *before* has, and no variable of another. Without names
            ``BYOC_CHECK`` looks at the region as a whole, and beside its workspace.

    Returns:
        A module of type ``c``: it is saved with its library and its source, threads may call it at once, and a vendor
        needs nothing of his own where it runs.

    Raises:
        CompileError: with the compiler's first error, for a tensor whose type C lacks or whose size is not known, or
            for names that are not one for each statement and step.
    """
    if names and not len(names) == len(statements) == len(region.steps):
        raise CompileError(
            f"{region.symbol} has {len(region.steps)} steps, and compiled_region was given {len(statements)} "
            f"statements with {len(names)} names: give one statement and one name for each step, or no names"
        )
    specs = [spec_of(f"value_{k}", ty) for k, ty in enumerate(region.types)]
    signature = signature_of_steps(region, specs)
    needs = [NO_HALF] if any(spec.dtype == "float16" for spec in specs) else []
    body = [_block(statement) for statement in statements] if names else statements
    text = _function(region, signature, specs, body)
    if names:
        text += _steps(region, signature, specs, body, names)
    source = "\n".join([INCLUDES, *needs, before, *text, ""])
    compiler = find_compiler()
    contract = contract_text(contract_of([signature], None, compiler.sanitizers))
    library = compiler.build(f'{source}\nconst char byoc_contract[] = "{contract}";\n')
    constants = dict(region.constants)
    processor, sanitizers = compiler.processor(), compiler.sanitizers
    return DsoModule(library, [signature], source, constants, processor, sanitizers=sanitizers)


def signature_of_steps(region: RegionSteps, specs: Sequence[TensorSpec]) -> Signature:
    """What the function of *region*, whose values are *specs*, takes and gives."""
    first = region.inputs + len(region.constants)
    constants = zip(region.constants, specs[region.inputs : first], strict=True)
    found = Signature(
        region.symbol,
        tuple(specs[: region.inputs]),
        tuple(TensorSpec(f"out{k}", specs[n].shape, specs[n].dtype) for k, n in enumerate(region.outputs)),
        tuple(TensorSpec(name, spec.shape, spec.dtype) for name, spec in constants),
    )
    return replace(found, temporary_sizes=tuple(n for n in size_names(specs) if n not in found.size_names))


def size_names(specs: Sequence[TensorSpec]) -> list[str]:
    """The named sizes of *specs*, each once, in order."""
    return list(dict.fromkeys(d for spec in specs for d in spec.shape if isinstance(d, str)))


def dim_text(dim: Dim) -> str:
    """A dimension in source: a number, or the variable that has the size of that name."""
    return (
        str(dim) if isinstance(dim, int) else "size_" + "".join(c if c.isalnum() else f"_{ord(c)}_" for c in str(dim))
    )


def size_text(spec: TensorSpec) -> str:
    """The number of elements of a tensor, in source."""
    named = [dim_text(d) for d in spec.shape if not isinstance(d, int)]
    number = 1
    for dim in spec.shape:
        number *= dim if isinstance(dim, int) else 1
    return f"({' * '.join([*named, f'{number}LL'])})" if named else str(number)


def _function(
    region: RegionSteps, signature: Signature, specs: Sequence[TensorSpec], statements: Sequence[str]
) -> list[str]:
    sizes = _sizes(signature)
    first_output = region.inputs + len(region.constants)
    place = {n: f"args[{n}]" for n in range(first_output)}
    for k, number in enumerate(region.outputs):
        place.setdefault(number, f"args[{first_output + k}]")
    values, needs = [], []
    for number, spec in enumerate(specs):
        const = "const " if number < first_output else ""
        kind = f"{const}{C_TYPES[spec.dtype]} *"
        if number not in place:
            need = f"  used += ({_bytes(spec)} + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT};"
            values += [f"  {kind}value_{number} = ({kind})(workspace + used);", need]
            needs.append(need)
        else:
            values.append(f"  {kind}value_{number} = ({kind}){place[number]};")
        values.append(f"  (void)value_{number};")
    copies = [
        f"  memcpy(args[{first_output + k}], value_{n}, {_bytes(specs[n])});"
        for k, n in enumerate(region.outputs)
        if place[n] != f"args[{first_output + k}]"
    ]
    return [
        f"int64_t {region.symbol}_workspace(const int64_t *sizes) {{",
        "  (void)sizes;",
        *sizes,
        "  int64_t used = 0;",
        *needs,
        "  return used;",
        "}",
        f"int32_t {region.symbol}(void **args, const int64_t *sizes, uint8_t *workspace, const void *team) {{",
        "  (void)args; (void)sizes; (void)workspace; (void)team;",
        *sizes,
        "  int64_t used = 0;",
        "  (void)used;",
        *values,
        *statements,
        *copies,
        "  return 0;",
        "}",
    ]


def _sizes(signature: Signature) -> list[str]:
    names = signature.size_names
    sizes = [f"  const int64_t {dim_text(name)} = sizes[{k}];" for k, name in enumerate(names)]
    return [*sizes, *(f"  (void){dim_text(name)};" for name in names)]


def _block(statement: str) -> str:
    """*statement* where its variables are its own; on lines of its own, as a directive or a comment may be in it."""
    return f"  {{\n{statement}\n  }}"


def _steps(
    region: RegionSteps,
    signature: Signature,
    specs: Sequence[TensorSpec],
    blocks: Sequence[str],
    names: Sequence[str],
) -> list[str]:
    """The function that runs the block of one step, and what it is about (``runtime/dso/checked_steps.py``)."""
    first_output = region.inputs + len(region.constants)
    values = []
    for number, spec in enumerate(specs):
        kind = f"{'const ' if number < first_output else ''}{C_TYPES[spec.dtype]} *"
        values += [f"  {kind}value_{number} = ({kind})values[{number}];", f"  (void)value_{number};"]
    steps = [CalledKernel(name, s.inputs, s.outputs) for name, s in zip(names, region.steps, strict=True)]
    table = CalledKernels(tuple(specs), tuple(steps), region.outputs).text()
    return [
        f"const char {region.symbol}_steps[] = {json.dumps(table)};",
        f"void {region.symbol}_step(int64_t step, void **values, const int64_t *sizes) {{",
        "  (void)values; (void)sizes;",
        *_sizes(signature),
        *values,
        "  switch (step) {",
        *(f"  case {k}:\n{block}\n  break;" for k, block in enumerate(blocks)),
        "  }",
        "}",
    ]


def _bytes(spec: TensorSpec) -> str:
    return f"{size_text(spec)} * {numpy_dtype(spec.dtype).itemsize}"
