"""``VirtualMachine``: inputs, runs and outputs of an executable's functions. Source: ``tvm.runtime.vm``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from byoc.runtime.core.benchmark import BenchmarkResult
from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.container import ADT
from byoc.runtime.core.device import Device
from byoc.runtime.core.errors import InputError, UserError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.time_limit import time_limit
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import Module, PackedFunction
from byoc.runtime.profile.graph_profile import Runs
from byoc.runtime.profile.run_profile import RunProfile
from byoc.runtime.region.guard import KEPT_FAILURES
from byoc.runtime.region.vendor_time_limit import run_again
from byoc.runtime.vm.executable import Executable, ExecutableModule
from byoc.runtime.vm.library_calls import LibraryCalls
from byoc.runtime.vm.machine import BytecodeMachine
from byoc.runtime.vm.program import VMFunction
from byoc.runtime.vm.timed_calls import TimedCalls, profile_calls
from byoc.runtime.vm.values import Value, argument, unchecked_argument

MAIN = "main"
ALLOCATORS = ("naive", "pooled")


class VirtualMachine:
    """Runs an executable; it keeps inputs and outputs, and is not for two threads at once.

    Inputs are held to the types of the function's parameters. Of a program that Relay's names compiled
    (``relay.vm.compile``, ``create_executor("vm")``) they are not: what does not fit is found by the function of the
    library that is called with it, or by nothing, as in Relay.

    *device* and *memory_cfg* are Relay's: byoc's host has one device and one way to allocate. Raises TypeError for an
    executable, a device or a configuration of another kind.
    """

    NAIVE_ALLOCATOR, POOLED_ALLOCATOR = 1, 2

    def __init__(
        self,
        exe: Executable | Module,
        device: Device | Sequence[Device],
        memory_cfg: str | Mapping[Device, str] | None = None,
    ):
        self._exe = _executable(exe)
        for one in device if isinstance(device, (list, tuple)) else [device]:
            if not isinstance(one, Device):
                raise TypeError("dev is expected to be Device or List[Device]")
        _check_memory(memory_cfg)
        self._machine = BytecodeMachine(
            self._exe.functions, self._exe.live_constants, LibraryCalls(self._exe.symbols, self._exe.lib)
        )
        self._inputs: dict[str, list[object]] = {}
        self._outputs: list[Value] = []

    @property
    def module(self) -> MachineFunctions:
        """The machine's methods by name, as ``machine.module["invoke"]``."""
        return MachineFunctions(self)

    # inputs ---------------------------------------------------------------------------------------------------------

    def set_input(self, func_name: str, *args: object, **kwargs: object) -> None:
        """Set all inputs of a function, in order or by name; names that it lacks are passed over.

        Raises InputError where their number differs from that of its parameters.
        """
        params = self._exe.get_function_params(func_name)
        named = {name: value for name, value in kwargs.items() if name in params}
        if sum(name not in named for name in params) != len(args):
            known = ", ".join(params) or "none"
            raise InputError(
                f"function {func_name} takes {len(params)} inputs ({known}), got {len(args)} in order and "
                f"{len(named)} by name"
            )
        rest = iter(args)
        self._inputs[func_name] = [named[name] if name in named else next(rest) for name in params]

    def set_one_input(self, func_name: str, *args: object, **kwargs: object) -> None:
        """Set one input: by ``name=value``, or by a name or position and its value. Raises InputError for another."""
        params = self._exe.get_function_params(func_name)
        if len(kwargs) + (len(args) == 2) != 1 or len(args) not in (0, 2):
            raise InputError(f"set_one_input takes one input of {func_name}: name=value, or a name or position and it")
        key, value = next(iter(kwargs.items())) if kwargs else args
        index = params.index(key) if isinstance(key, str) and key in params else key
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(params):
            raise InputError(f"function {func_name} has no input {key!r}; its inputs are {', '.join(params) or 'none'}")
        self._inputs.setdefault(func_name, [_MISSING] * len(params))[index] = value

    def get_input_index(self, input_name: str, func_name: str = MAIN) -> int:
        """The position of an input, or -1 where the function has no such."""
        params = self._exe.get_function_params(func_name)
        return params.index(input_name) if input_name in params else -1

    # runs -----------------------------------------------------------------------------------------------------------

    def invoke(self, func_name: str, *args: object, **kwargs: object) -> NDArray | ADT | object:
        """Run a function on inputs in order or by name, or on those that are set: an NDArray, or an ADT for data.

        ``timeout=`` is the seconds that it may take, unless the function has an input of that name. Raises InputError
        for an input that is missing or does not fit, RunTimeoutError. Source: ``VirtualMachine.invoke``.
        """
        named = "timeout" in self._exe.get_function_params(func_name)
        timeout = None if named else kwargs.pop("timeout", None)
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        function = self._exe.function(func_name)
        given = self._inputs.get(func_name, [_MISSING] * len(function.params))
        with time_limit(timeout):
            result = run_again(lambda: self._machine.call(function, _arguments(function, given)), KEPT_FAILURES)
        self._outputs = list(result) if isinstance(result, ADT) else [result]  # type: ignore[arg-type]  # of the VM's values
        return result

    def run(self, *args: object, **kwargs: object) -> NDArray | ADT | object:
        """Run main. Source: ``VirtualMachine.run``."""
        return self.invoke(MAIN, *args, **kwargs)

    def invoke_stateful(self, func_name: str, *args: object, **kwargs: object) -> None:
        """Run a function and keep its outputs for :meth:`get_outputs`. Source: ``invoke_stateful``."""
        self.invoke(func_name, *args, **kwargs)

    def invoke_with_outputs(
        self, func_name: str, input_args: Sequence[object] | Mapping[str, object], output_args: Sequence[NDArray]
    ) -> None:
        """Run a function and copy its outputs into *output_args*. Raises InputError where their number differs."""
        if isinstance(input_args, Mapping):
            self.set_input(func_name, **input_args)
        elif input_args:
            self.set_input(func_name, *input_args)
        self.invoke(func_name)
        if len(output_args) != len(self._outputs):
            raise InputError(f"{func_name} gives {len(self._outputs)} outputs, got places for {len(output_args)}")
        for target, value in zip(output_args, self._outputs, strict=True):
            target.copyfrom(value)

    def get_outputs(self) -> list[Value]:
        """The outputs of the last run: the fields of a tuple, or the one value."""
        return list(self._outputs)

    def benchmark(
        self,
        device: Device,
        *args: object,
        func_name: str = MAIN,
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: object,
    ) -> BenchmarkResult:
        """Seconds of a run of *func_name* on the inputs; *end_to_end* counts the copies of inputs and outputs too."""
        self.set_input(func_name, *args, **kwargs)
        timed = self.module.time_evaluator(
            "invoke_end_to_end" if end_to_end else "invoke",
            device,
            repeat=repeat,
            number=number,
            min_repeat_ms=min_repeat_ms or 0,
            limit_zero_time_iterations=limit_zero_time_iterations,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
        )
        return timed(func_name)

    def profile(
        self, *args: object, func_name: str = MAIN, repeat: int = 10, warmup: int = 2, **kwargs: object
    ) -> RunProfile:
        """Run a function on inputs in order or by name, and report what each function of the library takes in it.

        The first *warmup* runs do not count, *repeat* do. Raises InputError for an input that is missing or does not
        fit, UserError for an executable without a library.
        """
        root = self._exe.lib
        if not isinstance(root, MetadataModule):
            raise UserError("the executable has no library whose functions could be timed")
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        function = self._exe.function(func_name)
        values = _arguments(function, self._inputs.get(func_name, [_MISSING] * len(function.params)))
        runs = Runs(repeat, warmup)
        calls = TimedCalls(self._exe.symbols, root, runs.clock)
        machine = BytecodeMachine(self._exe.functions, self._exe.live_constants, calls)
        return profile_calls(func_name, calls, root, runs, lambda: machine.call(function, values))

    def invoke_end_to_end(self, func_name: str) -> None:
        """Run a function on copies of the inputs that are set, and copy the outputs: what a caller waits for."""
        given = self._inputs[func_name]
        self.invoke(func_name, *[np.array(v) if isinstance(v, np.ndarray) else v for v in given])
        self._inputs[func_name] = given
        for output in self._outputs:
            if isinstance(output, NDArray):
                output.numpy().copy()


class MachineFunctions(Module):
    """The methods of a machine as the functions of a module."""

    type_key = "VirtualMachine"
    symbols = (
        "benchmark",
        "get_input_index",
        "get_outputs",
        "invoke",
        "invoke_end_to_end",
        "invoke_stateful",
        "run",
        "set_input",
        "set_one_input",
    )

    def __init__(self, machine: VirtualMachine):
        super().__init__()
        self._machine = machine

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        return getattr(self._machine, name) if name in self.symbols else None


_MISSING = object()


def _arguments(function: VMFunction, given: Sequence[object]) -> list[Value]:
    missing = [name for name, value in zip(function.params, given, strict=True) if value is _MISSING]
    if missing:
        known = ", ".join(function.params)
        raise InputError(f"input {', '.join(map(repr, missing))} of {function.name} is not set; its inputs are {known}")
    sizes = Sizes()
    declared = zip(function.params, given, function.param_types, strict=True)
    if not function.checks_inputs:
        return [unchecked_argument(name, value, ty) for name, value, ty in declared]
    return [argument(name, value, ty, sizes) for name, value, ty in declared]


def _executable(exe: object) -> Executable:
    if isinstance(exe, Executable):
        return exe
    if isinstance(exe, ExecutableModule):
        return exe.executable
    raise TypeError(f"exe is expected to be the type of Executable, but received {type(exe)}")


def _check_memory(memory_cfg: object) -> None:
    if memory_cfg is None:
        return
    if not isinstance(memory_cfg, (str, Mapping)):
        raise TypeError(f"memory_cfg is expected be string or dictionary, but received {type(memory_cfg)}")
    for name in [memory_cfg] if isinstance(memory_cfg, str) else memory_cfg.values():
        if name not in ALLOCATORS:
            raise UserError(f"unknown allocator {name!r}; known: {', '.join(ALLOCATORS)}")
