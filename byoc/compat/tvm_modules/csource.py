"""``runtime.CSourceModuleCreate``: C or C++ of an integration as a module, compiled at once. Source: ``CSourceModule``.

TVM keeps the text until a library is exported; here it is compiled when the module is made, so that what the compiler
says is said there. Its packed functions are called with tensors of DLPack, and saved with the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import byoc.compat
from byoc.codegen.c.toolchain.compiler import TranslationUnit, find_compiler
from byoc.codegen.c.toolchain.cxx_compiler import CXX_FLAGS, find_cxx_compiler
from byoc.codegen.c.toolchain.sanitizers import check_process
from byoc.errors import ArtifactError, UserError
from byoc.runtime.dso.packed_module import PackedModule

C, CXX = ("c",), ("cc", "cpp", "cxx", "c++")
HEADERS = Path(str(byoc.compat.__file__)).parent / "include"


def create(
    code: str, fmt: str = "c", symbols: Sequence[str] | str = (), const_vars: Sequence[str] = ()
) -> PackedModule:
    """The module of *code*, whose functions are called *symbols*.

    Args:
        code: source with packed functions, which may include TVM's headers of its runtime and DLPack's.
        fmt: ``c``, or ``cc`` or ``cpp`` for C++.
        symbols: the names of its functions.
        const_vars: names of the constants that ``__init_<first symbol>`` is given before the first call: as one
            ``Array<NDArray>`` in C++, as so many tensors in C.

    Raises:
        UserError: for another language, no symbols, or constants without an ``__init_`` function.
        CompileError: with the compiler's first error.
        CompilerNotFoundError: there is none, for C or for C++.
    """
    names = [str(name) for name in ([symbols] if isinstance(symbols, str) else symbols)]
    if str(fmt) not in (*C, *CXX):
        raise UserError(f"CSourceModuleCreate: expected code in {', '.join((*C, *CXX))}, got {str(fmt)!r}")
    if not names:
        raise UserError("CSourceModuleCreate: expected the names of the functions in the code, got none")
    compiler, own = (find_compiler(), ()) if str(fmt) in C else (find_cxx_compiler(), CXX_FLAGS)
    check_process(compiler.sanitizers, compiler.command, compiler.is_gcc)
    flags = (f"-I{HEADERS}",)
    library = compiler.build_units([TranslationUnit(str(code), own)], flags)
    constants = [str(name) for name in const_vars or ()]
    module = PackedModule(library, names, str(code), compiler.processor(flags), constants)
    if constants:
        _check_initializer(module, names[0], constants)
    elif _has(module, f"__init_{names[0]}"):
        raise UserError(
            f"CSourceModuleCreate: the code has a function __init_{names[0]}, and const_vars names nothing for it: "
            f"give their names, {names[0]}_const_0 and so on, or leave the function out"
        )
    return module


def _has(module: PackedModule, symbol: str) -> bool:
    try:
        module.opened(symbol)
    except ArtifactError:
        return False
    return True


def _check_initializer(module: PackedModule, symbol: str, constants: Sequence[str]) -> None:
    """Raises UserError where no function of *module* takes its *constants*."""
    if not _has(module, f"__init_{symbol}"):
        raise UserError(
            f"CSourceModuleCreate: the constant {constants[0]!r} is for a function __init_{symbol}, which the code "
            f"does not have: write a packed function of so many tensors of that name in C, or in C++ "
            f"TVM_DLL_EXPORT_TYPED_FUNC(__init_{symbol}, ...) of a function of an Array<NDArray>, or leave const_vars "
            "empty and write constants into the code"
        )
