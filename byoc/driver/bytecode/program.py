"""A program of the virtual machine in the making: its functions, constants and symbols, each entered once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np

from byoc.contract.signature import spec_of
from byoc.driver.host_functions import HostFunctions
from byoc.errors import CompileError
from byoc.ir.expr import Constructor, GlobalVar
from byoc.ir.types import TensorType, TupleType, Type, tensor_types
from byoc.relay.expr import Function
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.vm.instructions import AllocADT, Ret
from byoc.runtime.vm.program import PackedSymbol, ParamType, VMFunction

PREFIX = "vm_mod_"


class ProgramBuilder:
    """What the lowering of functions fills: places of functions are handed out before the functions are lowered."""

    def __init__(self, functions: Mapping[GlobalVar, Function], regions: Mapping[GlobalVar, Function]):
        self.functions, self.regions = functions, regions
        self.host = HostFunctions(PREFIX, returning=True)
        self.constants: list[NDArray] = []
        self.symbols: list[PackedSymbol] = []
        self._lowered: dict[int, VMFunction] = {}
        self._places: dict[object, int] = {var: index for index, var in enumerate(functions)}
        self._constant_places: dict[tuple[str, tuple[int, ...], bytes], int] = {}
        self._symbol_places: dict[str, int] = {}
        self._count = itertools.count(len(functions))
        self._lifted = itertools.count()

    def place_of(self, var: GlobalVar) -> int:
        """The number of a global function. Raises CompileError for a name that the module lacks."""
        if var not in self._places:
            raise CompileError(f"@{var.name_hint} is not a function of the module that is compiled")
        return self._places[var]

    def new_place(self) -> int:
        """The number of a function that is lifted out of another."""
        return next(self._count)

    def lifted_name(self) -> str:
        """A name for a function that has none."""
        taken = {var.name_hint for var in self.functions}
        return next(name for name in (f"lifted_name_{k}" for k in self._lifted) if name not in taken)

    def put(self, place: int, function: VMFunction) -> None:
        """Enter the function number *place*."""
        self._lowered[place] = function

    def once(self, key: object, make: Callable[[], VMFunction]) -> int:
        """The number of the function that *make* gives, the same one for the same *key*."""
        if key not in self._places:
            self._places[key] = self.new_place()
            self.put(self._places[key], make())
        return self._places[key]

    def constructor(self, constructor: Constructor) -> int:
        """The number of a function that makes data, for a constructor that is used as a value."""
        count = len(constructor.inputs)
        params = tuple(f"field{k}" for k in range(count))
        code = (AllocADT(count, constructor.tag, tuple(range(count))), Ret(count))
        return self.once(constructor, lambda: VMFunction(self.lifted_name(), params, code, count + 1, (None,) * count))

    def constant(self, array: NDArray) -> int:
        """The number of a constant; equal ones are one."""
        if array.dtype == "string":
            self.constants.append(array)
            return len(self.constants) - 1
        key = (array.dtype, array.shape, np.asarray(array.numpy(), order="C").tobytes())
        if key not in self._constant_places:
            self._constant_places[key] = len(self.constants)
            self.constants.append(array)
        return self._constant_places[key]

    def symbol(self, name: str, function: Function) -> int:
        """The number of the symbol *name*, which computes the typed *function*."""
        if name not in self._symbol_places:
            inputs = [
                spec_of(f"{param.name_hint}.{k}" if isinstance(param.checked_type, TupleType) else param.name_hint, ty)
                for param in function.params
                for k, ty in enumerate(tensor_types(param.checked_type))
            ]
            outputs = [spec_of(f"out{k}", ty) for k, ty in enumerate(tensor_types(function.body.checked_type))]
            self._symbol_places[name] = len(self.symbols)
            self.symbols.append(PackedSymbol(name, tuple(inputs), tuple(outputs)))
        return self._symbol_places[name]

    def finish(self) -> list[VMFunction]:
        """All functions in the order of their numbers."""
        return [self._lowered[place] for place in range(len(self._lowered))]


def param_type(name: str, ty: Type | None) -> ParamType:
    """What a parameter takes, as the machine checks it; None for anything but tensors and tuples of them."""
    if isinstance(ty, TensorType):
        spec: TensorSpec = spec_of(name, ty)
        return spec
    if isinstance(ty, TupleType):
        return tuple(param_type(f"{name}[{k}]", f) for k, f in enumerate(ty.fields))
    return None
