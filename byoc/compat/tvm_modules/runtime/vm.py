"""``tvm.runtime.vm``: an executable and the machine that runs it. Source: ``tvm.runtime.vm``.

A program without control flow is a library, saved and loaded as one. Any other is the module itself, run by the
reference interpreter (a region by the function that it is), and not saved.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from byoc.compat.tvm_modules.runtime import LoadedLibrary
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.relay.interpreter import evaluate
from byoc.runtime.container import ADT
from byoc.runtime.device import Device
from byoc.runtime.library import Library
from byoc.runtime.ndarray import NDArray, from_any


class Executable:
    """A compiled program: a library, or a module to interpret."""

    def __init__(self, library: Library | None, mod: IRModule | None = None):
        self.library, self.mod = library, mod

    def save(self) -> tuple[bytes, object]:
        """The code as bytes, and the library of its functions (``export_library`` writes it). Source: ``save``."""
        if self.library is None:
            return str(self.mod).encode(), TextLibrary(self._module())
        return b"", LoadedLibrary(self.library)

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: object) -> Executable:
        """The executable of what :meth:`save` gave. Raises UserError for a library of another kind."""
        if isinstance(lib, LoadedLibrary):
            return Executable(lib.library)
        if isinstance(lib, TextLibrary):
            return Executable(None, lib.mod)
        raise UserError(f"load_exec takes the library that save() gave, got {type(lib).__name__}")

    def _module(self) -> IRModule:
        if self.mod is None:
            raise UserError("the executable holds neither a library nor a module")
        return self.mod

    @property
    def bytecode(self) -> str:
        """The program as text."""
        return str(self._module()) if self.library is None else str(self.library.graph_json["nodes"])

    @property
    def main_inputs(self) -> list[str]:
        """The names of main's inputs, in order."""
        if self.library is not None:
            return [spec.name for spec in self.library.inputs]
        return [param.name_hint for param in self._module()["main"].params]  # type: ignore[attr-defined]

    def run(self, inputs: Mapping[str, object]) -> NDArray | ADT:
        """The value of main on *inputs* by name."""
        if self.library is None:
            return as_value(evaluate(self._module(), inputs))
        outputs = [NDArray(array) for array in self.library.run(inputs)]
        return outputs[0] if len(outputs) == 1 else ADT(0, outputs)


class TextLibrary:
    """The library of a program that is interpreted: there is no code, the module is all."""

    def __init__(self, mod: IRModule):
        self.mod = mod

    def export_library(self, file_name: str | os.PathLike[str], *args: object, **options: object) -> None:
        """Raises UserError: what is interpreted has no code to export."""
        raise UserError("a program with control flow is interpreted and has no library to export: keep its text")


def as_value(value: object) -> NDArray | ADT:
    """An interpreter's value as TVM's: an array, or an ADT of them."""
    if isinstance(value, list):
        return ADT(0, [as_value(v) for v in value])
    return NDArray(from_any(value))


class VirtualMachine:
    """Runs an executable. Source: ``tvm.runtime.vm.VirtualMachine``."""

    def __init__(self, exe: Executable, device: Device | Sequence[Device], memory_cfg: object = None):
        self._exe = exe if isinstance(exe, Executable) else Executable.load_exec(b"", exe)
        self._inputs: dict[str, object] = {}
        self._outputs: list[NDArray] = []

    def set_input(self, func_name: str, *args: object, **kwargs: object) -> None:
        """Set the inputs of *func_name* in order or by name."""
        self._check(func_name)
        names = [name for name in self._exe.main_inputs if name not in kwargs]
        self._inputs = {**dict(zip(names, args, strict=False)), **kwargs}

    def invoke(self, func_name: str, *args: object, **kwargs: object) -> NDArray | ADT:
        """Run *func_name* on inputs in order or by name, or on those that are set."""
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        self._check(func_name)
        result = self._exe.run(self._inputs)
        self._outputs = list(result) if isinstance(result, ADT) else [result]  # type: ignore[arg-type]
        return result

    def run(self, *args: object, **kwargs: object) -> NDArray | ADT:
        """Run main. Source: ``VirtualMachine.run``."""
        return self.invoke("main", *args, **kwargs)

    def invoke_stateful(self, func_name: str, *args: object, **kwargs: object) -> None:
        """Run and keep the outputs for :meth:`get_outputs`."""
        self.invoke(func_name, *args, **kwargs)

    def get_outputs(self) -> list[NDArray]:
        """The outputs of the last run."""
        return self._outputs

    def _check(self, func_name: str) -> None:
        if func_name != "main":
            raise UserError(f"the executable runs main, not {func_name!r}")


__all__ = ["Executable", "VirtualMachine"]
