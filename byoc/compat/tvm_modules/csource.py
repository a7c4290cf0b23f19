"""``runtime.CSourceModuleCreate``: the C of an integration as a module, compiled at once. Source: ``CSourceModule``.

TVM keeps the text until a library is exported; here it is compiled when the module is made, so that what the compiler
says is said there. Its packed functions are called with tensors of DLPack, and saved with the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import byoc.compat
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.sanitizers import check_process
from byoc.errors import UserError
from byoc.runtime.dso.packed_module import PackedModule

FORMATS = ("c",)
HEADERS = Path(str(byoc.compat.__file__)).parent / "include"


def create(
    code: str, fmt: str = "c", symbols: Sequence[str] | str = (), const_vars: Sequence[str] = ()
) -> PackedModule:
    """The module of *code*, whose functions are called *symbols*.

    Args:
        code: C with packed functions, which may include TVM's headers of its runtime and DLPack's.
        fmt: ``c``.
        symbols: the names of its functions.
        const_vars: names of constants that it would be given; they have to stand in *code*.

    Raises:
        UserError: for another language, no symbols, or constants.
        CompileError: with the compiler's first error.
        CompilerNotFoundError: there is none.
    """
    names = [str(name) for name in ([symbols] if isinstance(symbols, str) else symbols)]
    if str(fmt) not in FORMATS:
        raise UserError(f"CSourceModuleCreate: expected code in c, got {str(fmt)!r}; write it as C")
    if not names:
        raise UserError("CSourceModuleCreate: expected the names of the functions in the code, got none")
    if const_vars:
        raise UserError(
            f"CSourceModuleCreate: the constant {str(const_vars[0])!r} would be given to C++ alone; write constants "
            "into the code"
        )
    compiler = find_compiler()
    check_process(compiler.sanitizers, compiler.command, compiler.is_gcc)
    flags = (f"-I{HEADERS}",)
    return PackedModule(compiler.build(str(code), flags), names, str(code), compiler.processor(flags))
