"""Regions that PyTorch computes on one device, a CUDA device or the processor: the half that an artefact needs.

Constants are copied to the device once, when the module is initialised; inputs and outputs at each call. Everything
between stays there.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from byoc.contrib.model_module import aliased
from byoc.contrib.region_program import Program, checked_program
from byoc.contrib.torch.device import DEVICE_VARIABLE, PRECISIONS, chosen_device, device_problem, numbers
from byoc.contrib.torch.program import computed
from byoc.contrib.torch.table import KERNELS
from byoc.runtime.core.errors import ArtifactError, ByocError, DeviceError, InputError
from byoc.runtime.core.ndarray import NDArray, from_any
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.core.strict_json import at, numbered, object_of, read_json, text_of
from byoc.runtime.modules.module import Members, Module, PackedFunction
from byoc.runtime.modules.saving import opened, sealed

KIND, VERSION = "torch regions", 1
PROGRAM = "program.json"


class TorchModule(Module):
    """Symbols as programs for one device of PyTorch, named when it is compiled or, with "", where it runs."""

    type_key = "torch"

    def __init__(self, programs: Mapping[str, Program], signatures: Sequence[Signature], device: str, precision: str):
        super().__init__()
        self.programs, self.signatures = dict(programs), {s.symbol: s for s in signatures}
        self.symbols = tuple(self.programs)
        self.device, self.precision = device, precision
        self._constants: dict[str, list[Any]] = {}
        self._place = ""  # the device, once it was asked for

    def unavailable(self) -> str | None:
        return device_problem(self.device or os.environ.get(DEVICE_VARIABLE, ""))

    def constants(self) -> Mapping[str, Sequence[str]]:
        return {symbol: [spec.name for spec in s.constants] for symbol, s in self.signatures.items()}

    def constant_specs(self, symbol: str) -> Sequence[TensorSpec]:
        return self.signatures[symbol].constants

    def initialize(self, symbol: str, constants: Sequence[NDArray]) -> None:
        self._place = chosen_device(self.device)
        self._constants[symbol] = [self._on_device(c.numpy()) for c in constants]

    def memory(self, symbol: str) -> Mapping[str, int]:
        count = sum(spec_bytes(spec) for spec in self.signatures[symbol].constants)
        return {"device": count} if count else {}

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        if name in self.programs:
            return functools.partial(self._call, name)
        return super().get_function(name, query_imports)

    def _on_device(self, array: np.ndarray) -> Any:
        """*array* as a tensor: on the processor the same memory, elsewhere a copy."""
        torch: Any = importlib.import_module("torch")
        return torch.from_numpy(aliased(array)).to(self._place)

    def _call(self, symbol: str, *args: object) -> None:
        """Inputs, then outputs, which are filled.

        Raises UnavailableError without PyTorch or the device, InputError for arrays that do not fit, DeviceError for
        what PyTorch raises, KernelError for a step that gives another shape or type than its operator has.
        """
        self._place = self._place or chosen_device(self.device)
        torch: Any = importlib.import_module("torch")
        arrays, signature = [from_any(a) for a in args], self.signatures[symbol]
        count = len(signature.inputs)
        if len(arrays) != count + len(signature.outputs):
            raise InputError(
                f"{symbol}: expected {count} inputs and {len(signature.outputs)} outputs, got {len(arrays)} arrays"
            )
        sizes = signature.bind_sizes(arrays[:count])
        try:
            with numbers(self.precision):
                inputs = [self._on_device(np.asarray(a, order="C")) for a in arrays[:count]]
                results = self._run(symbol, [*inputs, *self._constants.get(symbol, ())], sizes)
                for target, value in zip(arrays[count:], results, strict=True):
                    torch.from_numpy(target).copy_(value)  # which waits for the device
        except ByocError:
            raise
        except RuntimeError as error:  # also torch.OutOfMemoryError
            raise DeviceError(f"{symbol}: PyTorch failed on {self._place}: {_first_line(error)}") from error

    def _run(self, symbol: str, values: list[Any], sizes: Mapping[str, int]) -> list[Any]:
        """The outputs of a program; what no later step reads is let go at once."""
        program = self.programs[symbol]
        last = {k: n for n, step in enumerate(program["steps"]) for k in step["arguments"]}
        kept = set(program["outputs"])
        for n, step in enumerate(program["steps"]):
            values += computed(symbol, step, [values[k] for k in step["arguments"]], sizes)
            for k in step["arguments"]:
                if last[k] == n and k not in kept:
                    values[k] = None
        return [values[k] for k in program["outputs"]]

    def get_source(self, fmt: str = "") -> str:
        lines = [f"device {self.device or 'of the machine'}, precision {self.precision}"]
        for symbol, program in self.programs.items():
            lines += [symbol, *(f"  {s['operator']}({', '.join(map(str, s['arguments']))})" for s in program["steps"])]
        return "\n".join(lines)

    def save(self) -> dict[str, bytes]:
        data = {
            "device": self.device,
            "precision": self.precision,
            "signatures": [s.to_json() for s in self.signatures.values()],
            "programs": list(self.programs.values()),
        }
        return sealed(KIND, VERSION, {PROGRAM: json.dumps(data, indent=1).encode()})

    @classmethod
    def load(cls, members: Members) -> TorchModule:
        _, content = opened(members, KIND, VERSION)
        if PROGRAM not in content:
            raise ArtifactError(f"{PROGRAM} is missing: save the model again")
        data = object_of(
            read_json(content[PROGRAM], PROGRAM), PROGRAM, ("device", "precision", "signatures", "programs")
        )
        signatures = Signature.list_from_json(data["signatures"], at(PROGRAM, "signatures"))
        programs = [checked_program(program, place, KERNELS) for place, program in numbered(data, "programs", PROGRAM)]
        if len(programs) != len(signatures):
            raise ArtifactError(f"{PROGRAM}: {len(programs)} programs for {len(signatures)} symbols")
        device, precision = (text_of(data[name], at(PROGRAM, name)) for name in ("device", "precision"))
        if precision not in PRECISIONS:
            raise ArtifactError(f"{PROGRAM}: the precision {precision!r} is none of {', '.join(PRECISIONS)}")
        return cls(dict(zip([s.symbol for s in signatures], programs, strict=True)), signatures, device, precision)


def spec_bytes(spec: TensorSpec) -> int:
    """The bytes of a tensor whose dimensions are numbers."""
    return int(np.prod(spec.concrete_shape({}), dtype=np.int64)) * np.dtype(spec.dtype).itemsize


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
