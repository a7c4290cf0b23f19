"""What ``tvm.target.codegen`` says of LLVM: byoc has none, its host code is C. Source: ``tvm.target.codegen``."""

from __future__ import annotations

from byoc.compat.tvm.below import Missing


def llvm_version_major(allow_none: bool = False) -> int:
    """0: older than every LLVM, so that code which asks skips what needs one. Source: ``llvm_version_major``."""
    return 0


def llvm_get_targets() -> list[str]:
    """The targets of LLVM: none."""
    return []


def __getattr__(name: str) -> Missing:
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(f"tvm.target.codegen.{name}")
