"""PyTorch's devices, and the switches of a process by which its products round."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from byoc.runtime.core.errors import UnavailableError

DEVICE_VARIABLE = "BYOC_TORCH_DEVICE"
PRECISIONS = ("f32", "tf32")


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
