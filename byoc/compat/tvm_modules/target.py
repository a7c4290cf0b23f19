"""Targets, virtual devices and compilation configurations under TVM's names. Source: ``tvm.target``.

They stand in ``byoc.ir``; here are the short functions that name a kind with options. byoc's host is generated C
whatever a CPU target says; a kind that is a registered backend of byoc (``opencl``) takes regions.
"""

from __future__ import annotations

from byoc.annex.devices.compilation_config import CompilationConfig, make_compilation_config
from byoc.ir.target import Target
from byoc.ir.target_kind import TARGET_KINDS, TargetKind, register_target_kind
from byoc.ir.virtual_device import VirtualDevice

HOST_KINDS = ("llvm", "c", "stackvm", "hybrid", "test", "ext_dev", "composite")


def _of(kind: str, *options: str) -> Target:
    return Target(" ".join(word for word in (kind, *options) if word))


def cuda(model: str = "unknown", arch: str | None = None, options: str | None = None) -> Target:
    """The target ``cuda``: it can be named and asked; byoc generates no code for it. Source: ``tvm.target.cuda``."""
    return _of("cuda", f"-model={model}", f"-arch={arch}" if arch else "", options or "")


def rocm(model: str = "unknown", options: str | None = None) -> Target:
    """The target ``rocm``, as a name. Source: ``tvm.target.rocm``."""
    return _of("rocm", f"-model={model}", options or "")


def mali(model: str = "unknown", options: str | None = None) -> Target:
    """The target of ARM Mali GPUs, by OpenCL. Source: ``tvm.target.mali``."""
    return _of("opencl", "-device=mali", f"-model={model}", options or "")


def intel_graphics(model: str = "unknown", options: str | None = None) -> Target:
    """The target of Intel's GPUs, by OpenCL. Source: ``tvm.target.intel_graphics``."""
    return _of("opencl", "-device=intel_graphics", f"-model={model}", options or "")


def arm_cpu(model: str = "unknown", options: str | None = None) -> Target:
    """The target of an ARM processor. Source: ``tvm.target.arm_cpu``."""
    return _of("llvm", "-device=arm_cpu", f"-model={model}", options or "")


def create(target: str | Target) -> Target:
    """The target that *target* says. Source: ``tvm.target.create``."""
    return Target(target)


__all__ = [
    "HOST_KINDS",
    "TARGET_KINDS",
    "CompilationConfig",
    "Target",
    "TargetKind",
    "VirtualDevice",
    "arm_cpu",
    "create",
    "cuda",
    "intel_graphics",
    "make_compilation_config",
    "mali",
    "register_target_kind",
    "rocm",
]
