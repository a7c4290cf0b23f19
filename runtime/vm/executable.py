"""An executable of the virtual machine: bytecode, constants, and the library of the functions that it calls.

Source: ``tvm.runtime.vm.Executable``.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from byoc.runtime.artefact.artifact import replace_file
from byoc.runtime.core.errors import ArtifactError, UserError
from byoc.runtime.core.ndarray import NDArray, read_only
from byoc.runtime.files.weights import read_weights, write_weights
from byoc.runtime.files.whole_file import read_file
from byoc.runtime.modules.module import Members, Module, PackedFunction
from byoc.runtime.vm.code import read_code, write_code
from byoc.runtime.vm.program import PackedSymbol, VMFunction

CODE_MEMBER = "code"


class Executable:
    """A compiled program. ``save`` gives its bytecode and its library; ``mod`` is both as one module to export.

    ``Executable(module)`` is the executable of what ``mod`` was, as ``load_module`` gives it back; constants that one
    of both loads are the other's too. Raises TypeError for another kind of module.
    """

    def __init__(
        self,
        functions: Sequence[VMFunction] | Module,
        symbols: Sequence[PackedSymbol] = (),
        constants: Sequence[NDArray | None] = (),
        library: Module | None = None,
    ):
        if isinstance(functions, Module):
            self._share(functions)
            return
        self.functions = tuple(functions)
        self.symbols = tuple(symbols)
        self._constants = [None if c is None else read_only(c) for c in constants]
        self._library = library
        self._by_name = {function.name: function for function in self.functions}

    def _share(self, module: Module) -> None:
        if not isinstance(module, ExecutableModule):
            raise TypeError(f"a module of an executable is expected, but received {type(module)}")
        other = module.executable
        self.functions, self.symbols = other.functions, other.symbols
        self._constants, self._library, self._by_name = other._constants, other._library, other._by_name

    # saving ---------------------------------------------------------------------------------------------------------

    def save(self) -> tuple[bytearray, Module | None]:
        """The bytecode and the library; the library is saved by its ``export_library``. Source: ``Executable.save``.

        Raises UserError for a constant that cannot be saved.
        """
        return write_code(self.functions, self.symbols, self._constants), self._library

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: Module | None) -> Executable:
        """The executable of what :meth:`save` gave. Source: ``Executable.load_exec``.

        Raises TypeError for arguments of another kind, ArtifactError for damaged bytecode.
        """
        if not isinstance(bytecode, (bytes, bytearray)):
            raise TypeError(
                f"bytecode is expected to be the type of bytearray or TVMByteArray, but received {type(bytecode)}"
            )
        if lib is not None and not isinstance(lib, Module):
            raise TypeError(f"lib is expected to be the type of tvm.runtime.Module, but received {type(lib)}")
        return Executable(*read_code(bytecode), lib)

    @property
    def mod(self) -> ExecutableModule:
        """The whole executable as one module, which ``export_library`` saves."""
        return ExecutableModule(self)

    module = mod

    @property
    def lib(self) -> Module | None:
        """The library of the functions that the program calls."""
        return self._library

    # what is in it --------------------------------------------------------------------------------------------------

    def function(self, name: str) -> VMFunction:
        """The function *name*. Raises UserError with the known names."""
        if name not in self._by_name:
            raise UserError(f"cannot find function {name!r} in the executable; it has {', '.join(self._by_name)}")
        return self._by_name[name]

    @property
    def globals(self) -> list[str]:
        """The names of the functions that can be called, in their order."""
        return [f.name for f in self.functions]

    @property
    def primitive_ops(self) -> list[str]:
        """The symbols of the library that the program calls."""
        return [symbol.symbol for symbol in self.symbols]

    @property
    def constants(self) -> list[NDArray | None]:
        """The constants that the program loads; None for one that was moved out."""
        return list(self._constants)

    @property
    def virtual_devices(self) -> str:
        """The devices that the program is for: the host alone."""
        return "VirtualDevice[0]: device type 1, id 0 (cpu)\n"

    def get_function_params(self, func_name: str) -> list[str]:
        """The names of a function's parameters. Raises UserError for an unknown function."""
        return list(self.function(func_name).params)

    def get_function_arity(self, func_name: str) -> int:
        """How many values a function takes. Raises UserError for an unknown function."""
        return len(self.function(func_name).params)

    @property
    def bytecode(self) -> str:
        """All functions as text."""
        heads = [f"VM Function[{k}]: {f.name}({', '.join(f.params)})\n" for k, f in enumerate(self.functions)]
        return "".join(f"{head}{f.text(self.symbols)}\n" for head, f in zip(heads, self.functions, strict=True))

    @property
    def stats(self) -> str:
        """What the executable holds, as text."""
        shapes = ["moved" if c is None else "x".join(map(str, c.shape)) or "scalar" for c in self._constants]
        names = [f'("{f.name}", {k})' for k, f in enumerate(self.functions)]
        return (
            "Relay VM executable statistics:\n"
            f"  Constant shapes (# {len(shapes)}): [{', '.join(shapes)}]\n"
            f"  Globals (#{len(names)}): [{', '.join(names)}]\n"
            f"  Primitive ops (#{len(self.symbols)}): [{', '.join(self.primitive_ops)}]\n"
        )

    # constants outside of it ----------------------------------------------------------------------------------------

    def move_late_bound_consts(self, path: str | os.PathLike[str], byte_limit: int) -> None:
        """Move each constant of at least *byte_limit* bytes to a file. Source: ``move_late_bound_consts``.

        Raises UserError where the file cannot be written.
        """
        moved = self._late_bound(byte_limit)
        data = write_weights(moved)
        replace_file(Path(path), lambda file: file.write(data))
        self._drop(moved)  # only now: what could not be written stays

    def get_late_bound_consts(self, byte_limit: int) -> dict[str, NDArray]:
        """The constants of at least *byte_limit* bytes, which are no longer in the executable then."""
        moved = self._late_bound(byte_limit)
        self._drop(moved)
        return moved

    def _late_bound(self, byte_limit: int) -> dict[str, NDArray]:
        constants = enumerate(self._constants)
        return {f"const_{k}": c for k, c in constants if c is not None and c.nbytes >= byte_limit}

    def _drop(self, names: Container[str]) -> None:
        for index in range(len(self._constants)):
            if f"const_{index}" in names:
                self._constants[index] = None

    def load_late_bound_consts(self, path: str | os.PathLike[str]) -> None:
        """Take back the constants that were moved to a file. Raises ArtifactError for another file."""
        try:
            data = read_file(path)
        except OSError as error:
            raise ArtifactError(f"{os.fspath(path)}: the constants cannot be read ({error.strerror})") from error
        self.load_late_bound_consts_from_map(read_weights(memoryview(data), str(path)))

    def load_late_bound_consts_from_map(self, consts: Mapping[str, NDArray]) -> None:
        """Take back the constants that were moved out, by name; others are passed over. Raises UserError for a lack."""
        missing = {f"const_{k}": k for k, constant in enumerate(self._constants) if constant is None}
        for name in missing:
            if name not in consts:
                raise UserError(f"the constants lack {name}, which was moved out of the executable")
        for name, index in missing.items():
            self._constants[index] = read_only(consts[name])

    @property
    def live_constants(self) -> list[NDArray | None]:
        """The list of constants itself, as machines read it: what is loaded later is seen."""
        return self._constants


class ExecutableModule(Module):
    """An executable as a module: the bytecode is its content, the library hangs below it."""

    type_key = "VMExecutable"

    def __init__(self, executable: Executable):
        super().__init__()
        self.executable = executable
        if executable.lib is not None:
            self.import_module(executable.lib)

    @property
    def symbols(self) -> tuple[str, ...]:  # type: ignore[override]  # whose library may be loaded later
        return tuple(self.executable.globals)

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        """A method of the executable by TVM's name for it, or a function of the library."""
        if name in _FUNCTIONS:
            method: PackedFunction = getattr(self.executable, name)
            return method
        return super().get_function(name, query_imports)

    def get_source(self, fmt: str = "") -> str:
        return self.executable.bytecode

    def save(self) -> dict[str, bytes]:
        return {CODE_MEMBER: bytes(self.executable.save()[0])}

    @classmethod
    def restore(cls, members: Members, arrays: Mapping[str, NDArray], below: Sequence[Module]) -> ExecutableModule:
        """The module from its bytecode and its library. Raises ArtifactError for damaged bytecode."""
        lib = below[0] if below else None
        return cls(Executable.load_exec(bytes(members[CODE_MEMBER]), lib))


_FUNCTIONS = frozenset(
    [
        "get_function_arity",
        "get_function_params",
        "get_late_bound_consts",
        "load_late_bound_consts",
        "load_late_bound_consts_from_map",
        "move_late_bound_consts",
    ]
)
