"""Regions that PyTorch computes on one device, a CUDA device or the processor: the half that an artefact needs.

Constants are copied to the device once, when the module is initialised; inputs and outputs at each call. Everything
between stays there.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from byoc.contrib.model_module import aliased
from byoc.contrib.program_module import ProgramModule
from byoc.contrib.region_program import RegionProgram
from byoc.contrib.torch.kernels import TorchStep
from byoc.contrib.torch.table import KERNELS
from byoc.runtime.core.errors import ArtifactError, ByocError, DeviceError, KernelError, UnavailableError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import Signature, TensorSpec

DEVICE_VARIABLE = "BYOC_TORCH_DEVICE"
PRECISIONS = ("f32", "tf32")


class TorchModule(ProgramModule):
    """Symbols as programs for one device of PyTorch, named when it is compiled or, with "", where it runs."""

    type_key = "torch"
    content_kind = "torch regions"
    operators = KERNELS
    settings = ("device", "precision")

    def __init__(
        self, programs: Mapping[str, RegionProgram], signatures: Sequence[Signature], device: str, precision: str
    ):
        super().__init__(programs, signatures, device, precision)
        if precision not in PRECISIONS:
            raise ArtifactError(f"the precision {precision!r} of a torch module is none of {', '.join(PRECISIONS)}")
        self.device, self.precision = device, precision
        self._constants: dict[str, list[Any]] = {}
        self._place = ""  # the device, once it was asked for

    def unavailable(self) -> str | None:
        return device_problem(self.device or os.environ.get(DEVICE_VARIABLE, ""))

    def initialize(self, symbol: str, constants: Sequence[NDArray]) -> None:
        self._place = chosen_device(self.device)
        self._constants[symbol] = [self._on_device(c.numpy()) for c in constants]

    def memory(self, symbol: str) -> Mapping[str, int]:
        specs = self.signatures[symbol].constants
        count = sum(int(np.prod(s.concrete_shape({}), dtype=np.int64)) * np.dtype(s.dtype).itemsize for s in specs)
        return {"device": count} if count else {}

    def _on_device(self, array: np.ndarray) -> Any:
        """*array* as a tensor: on the processor the same memory, elsewhere a copy."""
        torch: Any = importlib.import_module("torch")
        return torch.from_numpy(aliased(array)).to(self._place)

    def run(
        self, symbol: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], sizes: Mapping[str, int]
    ) -> None:
        """Raises UnavailableError without PyTorch or the device, DeviceError for what PyTorch raises, KernelError for a
        step that gives another shape or type than its operator has.
        """
        self._place = self._place or chosen_device(self.device)
        torch: Any = importlib.import_module("torch")
        try:
            with numbers(self.precision):
                values = [*(self._on_device(a) for a in inputs), *self._constants.get(symbol, ())]
                for target, value in zip(outputs, self._computed(symbol, values, sizes), strict=True):
                    torch.from_numpy(target).copy_(value)  # which waits for the device
        except ByocError:
            raise
        except RuntimeError as error:  # also torch.OutOfMemoryError
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise DeviceError(f"{symbol}: PyTorch failed on {self._place}: {said}") from error

    def _computed(self, symbol: str, values: list[Any], sizes: Mapping[str, int]) -> list[Any]:
        """The outputs of a program; what no later step reads is let go at once."""
        program = self.programs[symbol]
        last = {k: n for n, step in enumerate(program["steps"]) for k in step["arguments"]}
        kept = set(program["outputs"])
        for n, step in enumerate(program["steps"]):
            values += step_computed(symbol, step, [values[k] for k in step["arguments"]], sizes)
            for k in step["arguments"]:
                if last[k] == n and k not in kept:
                    values[k] = None
        return [values[k] for k in program["outputs"]]

    def get_source(self, fmt: str = "") -> str:
        lines = [f"device {self.device or 'of the machine'}, precision {self.precision}"]
        for symbol, program in self.programs.items():
            lines += [symbol, *(f"  {s['operator']}({', '.join(map(str, s['arguments']))})" for s in program["steps"])]
        return "\n".join(lines)


def step_computed(
    symbol: str, written: Mapping[str, Any], tensors: Sequence[Any], sizes: Mapping[str, int]
) -> list[Any]:
    """The results of one step. Raises KernelError where they are not of the types that its operator has."""
    torch: Any = importlib.import_module("torch")
    specs = [TensorSpec(result["name"], tuple(result["shape"]), result["dtype"]) for result in written["results"]]
    shapes, dtypes = [spec.concrete_shape(sizes) for spec in specs], [spec.dtype for spec in specs]
    if not any(0 not in shape for shape in shapes):
        return [
            torch.empty(shape, dtype=getattr(torch, dtype), device=tensors[0].device)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]
    step = TorchStep(written["operator"], written["attributes"], shapes, dtypes)
    given = KERNELS[written["operator"]].compute(step, *tensors)
    results = list(given) if isinstance(given, (list, tuple)) else [given]
    for value, shape, dtype in zip(results, shapes, dtypes, strict=True):
        if tuple(value.shape) != shape or value.dtype != getattr(torch, dtype):
            raise KernelError(
                f"{symbol}: {written['operator']} gave {value.dtype}{list(value.shape)}, expected {dtype}{list(shape)}"
            )
    return results


# devices --------------------------------------------------------------------------------------------------------------


def torch_missing() -> str | None:
    """One sentence where PyTorch cannot be imported, else None."""
    try:
        importlib.import_module("torch")
    except (ImportError, OSError) as error:  # OSError: a library that it loads is missing
        return f"PyTorch is not here ({error}): pip install torch"
    return None


def misnamed(name: str) -> str | None:
    """One sentence where *name* is that of no device, wherever; None for "" too."""
    kind, colon, number = name.partition(":")
    if not name or (kind == "cpu" and not colon) or (kind == "cuda" and (not colon or number.isdecimal())):
        return None
    return f"torch.device: expected cuda, cuda:N or cpu, got {name!r}"


def device_problem(name: str) -> str | None:
    """One sentence where PyTorch has no device of that *name* here; None where it has, or where *name* is empty."""
    problem = misnamed(name) or torch_missing()
    if problem is not None or not name.startswith("cuda"):
        return problem
    torch: Any = importlib.import_module("torch")
    count = torch.cuda.device_count()
    if int(name.partition(":")[2] or 0) < count:
        return None
    found = f"{count} CUDA devices" if count else "no CUDA device"
    return f"PyTorch {torch.__version__} finds {found} here, and {name} is asked for: choose cpu or another number"


def chosen_device(name: str) -> str:
    """The device *name*; without one that of the environment, else CUDA's first where there is one, else the
    processor. Raises UnavailableError where PyTorch, or the device, is not here.
    """
    asked = name or os.environ.get(DEVICE_VARIABLE, "")
    problem = device_problem(asked)
    if problem is not None:
        raise UnavailableError(problem)
    torch: Any = importlib.import_module("torch")
    return asked or ("cuda" if torch.cuda.is_available() else "cpu")


def named_device(name: str) -> str | None:
    """The device that :func:`chosen_device` gives, by its own name, with PyTorch's CUDA and the driver; None for the
    processor. Raises as that.
    """
    chosen = chosen_device(name)
    if not chosen.startswith("cuda"):
        return None
    torch: Any = importlib.import_module("torch")
    driver = nvidia_driver(Path("/proc/driver/nvidia/version"))
    return f"{torch.cuda.get_device_name(chosen)}, CUDA {torch.version.cuda}{f', driver {driver}' if driver else ''}"


def nvidia_driver(file: Path) -> str:
    """The version of NVIDIA's kernel module, of which *file* tells; "" where there is no such file, or no version."""
    try:
        found = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+)+)\s", file.read_text())
    except (OSError, UnicodeDecodeError):
        return ""
    return found[1] if found else ""


def _switches(tf32: bool) -> list[tuple[Any, str, object]]:
    """PyTorch's switches for the numbers of products: owner, name, and what stands there while a region runs."""
    backends: Any = importlib.import_module("torch").backends
    cudnn, blas = backends.cudnn, backends.cuda.matmul
    rounding: list[tuple[Any, str, object]]
    if hasattr(blas, "fp32_precision"):  # since 2.9, which refuses to read what is mixed with the older names
        named = "tf32" if tf32 else "ieee"
        rounding = [(cudnn.conv, "fp32_precision", named), (blas, "fp32_precision", named)]
    else:
        rounding = [(cudnn, "allow_tf32", tf32), (blas, "allow_tf32", tf32)]
    always = [(cudnn, "deterministic", True), (cudnn, "benchmark", False)]
    return [*rounding, *always, (blas, "allow_fp16_reduced_precision_reduction", False)]


@contextmanager
def numbers(precision: str) -> Iterator[None]:
    """PyTorch's switches, which belong to the process, as *precision* says, then as they were.

    Whoever enters is alone among modules of this type, since these do not say ``thread_safe``.
    """
    torch: Any = importlib.import_module("torch")
    wanted = _switches(precision == "tf32")
    before = [getattr(owner, name) for owner, name, _ in wanted]
    try:
        for owner, name, value in wanted:
            setattr(owner, name, value)
        with torch.inference_mode():
            yield
    finally:
        for (owner, name, _), value in zip(wanted, before, strict=True):
            setattr(owner, name, value)
