"""Kinds of target: what a target's first word names, with its devices and its options. Source: ``tvm.target``.

A kind is registered, or is the name of an external compiler: one that has a code generator (``relay.ext.<name>``) or
a pattern table. Which of them byoc has code for is for the driver to say; here they only have names and devices.

An option of a kind that is declared has a type and perhaps a default, which every target of that kind then has among
its ``attrs``; others are kept as they are given, so that a vendor's kind need declare nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from byoc.errors import UserError
from byoc.ir.registry import GLOBAL_FUNCTIONS, Registry

CPU, CUDA, OPENCL, VULKAN, METAL, ROCM, EXT_DEV, HEXAGON, WEBGPU = 1, 2, 4, 7, 8, 10, 12, 14, 15

_TRUE, _FALSE = ("1", "true", "True"), ("0", "false", "False")


@dataclass(frozen=True)
class TargetOption:
    """An option: its type (``bool``, ``int`` or ``str``, or a list of one), and the value where none is given."""

    type: type
    default: object = None
    is_list: bool = False

    def read(self, name: str, value: object) -> object:
        """*value*, a text as it stands in a target's words or a value, as this option's type; lists as lists.

        Raises UserError for what is not of the type.
        """
        if not self.is_list:
            return self._one(name, value)
        if isinstance(value, str):
            value = [word for word in value.strip("[]").split(",") if word]
        if not isinstance(value, Sequence):
            value = [value]
        return [self._one(name, each) for each in value]

    def _one(self, name: str, value: object) -> object:
        if self.type is bool and isinstance(value, str) and value in _TRUE + _FALSE:
            return value in _TRUE
        if self.type is str and isinstance(value, str):
            return value.strip("\"'")
        if self.type in (bool, int) and isinstance(value, (bool, int)):
            return self.type(value)
        if self.type is int and isinstance(value, str):
            try:
                return int(value, 0)
            except ValueError:
                pass
        raise UserError(f"the option {name} of a target is of type {self.type.__name__}, got {value!r}")


@dataclass(frozen=True)
class TargetKind:
    """A kind of target: name, DLPack's number of its devices, the keys by which schedules are chosen, and options."""

    name: str
    device_type: int = CPU
    keys: tuple[str, ...] = ("cpu",)
    is_external_codegen: bool = False
    options: Mapping[str, TargetOption] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return self.name

    @property
    def default_device_type(self) -> int:
        """DLPack's number of the devices. Source: ``TargetKind::default_device_type``."""
        return self.device_type

    def attributes(self, given: Mapping[str, object]) -> dict[str, object]:
        """The *given* options as the types that are declared, and the declared defaults.

        Raises UserError for an option that is not of its type.
        """
        defaults = {
            name: list(option.default) if isinstance(option.default, list) else option.default
            for name, option in self.options.items()
            if option.default is not None
        }
        read = {k: self.options[k].read(k, v) if k in self.options else v for k, v in given.items()}
        return {**defaults, **read}


TARGET_KINDS: Registry[TargetKind] = Registry("kind of target")
# each says whether a name is an external compiler's
KNOWS_COMPILER: list[Callable[[str], bool]] = [lambda name: f"relay.ext.{name}" in GLOBAL_FUNCTIONS]


def register_target_kind(
    name: str,
    device_type: int = CPU,
    is_external_codegen: bool = True,
    options: Mapping[str, TargetOption] = MappingProxyType({}),
) -> TargetKind:
    """Make a vendor's name a kind of target (what ``TVM_REGISTER_TARGET_KIND`` does in C++); again changes nothing."""
    if name not in TARGET_KINDS:
        TARGET_KINDS.register(name, TargetKind(name, device_type, (), is_external_codegen, dict(options)))
    return TARGET_KINDS[name]


def target_kind(name: str) -> TargetKind:
    """The kind *name*. Raises UserError for one that is neither registered nor an external compiler."""
    if name in TARGET_KINDS:
        return TARGET_KINDS[name]
    if any(knows(name) for knows in KNOWS_COMPILER):
        return TargetKind(name, CPU, (), True)
    raise UserError(f"unknown kind of target {name!r}; known: {', '.join(TARGET_KINDS)}")


def _texts() -> TargetOption:
    return TargetOption(str, is_list=True)


_LLVM = {
    "mattr": _texts(),
    "mcpu": TargetOption(str),
    "mtriple": TargetOption(str),
    "mabi": TargetOption(str),
    "num-cores": TargetOption(int),
    "opt-level": TargetOption(int),
    "vector-width": TargetOption(int),
    "fast-math": TargetOption(bool),
    "libs": _texts(),
}
_THREADS = {"max_num_threads": TargetOption(int, 256), "thread_warp_size": TargetOption(int, 1)}
_GPU_CC = {
    "mcpu": TargetOption(str),
    "arch": TargetOption(str),
    "max_num_threads": TargetOption(int, 1024),
    "thread_warp_size": TargetOption(int, 32),
    "max_shared_memory_per_block": TargetOption(int),
    "registers_per_block": TargetOption(int),
    "max_threads_per_block": TargetOption(int),
    "libs": _texts(),
}
_TENSORRT = {
    "tensorrt_version": TargetOption(int, [], is_list=True),
    "use_implicit_batch": TargetOption(bool, True),
    "remove_no_mac_subgraphs": TargetOption(bool, False),
    "max_workspace_size": TargetOption(int, 1 << 30),
    "use_fp16": TargetOption(bool, False),
    "use_uint8": TargetOption(bool, False),
}
_CUTLASS = {
    "sm": TargetOption(int, 80),
    "use_3xtf32": TargetOption(bool, True),
    "split_k_slices": TargetOption(int, [1], is_list=True),
    "profile_all_alignments": TargetOption(bool, False),
    "find_first_valid": TargetOption(bool, False),
    "use_multiprocessing": TargetOption(bool, False),
    "threshold": TargetOption(int),
}


def _register(
    names: Sequence[str],
    device_type: int,
    keys: tuple[str, ...],
    external: bool = False,
    options: Mapping[str, TargetOption] = MappingProxyType({}),
) -> None:
    for name in names:
        TARGET_KINDS.register(name, TargetKind(name, device_type, keys, external, dict(options)))


_register(("llvm",), CPU, ("cpu",), options=_LLVM)
_register(("c",), CPU, ("cpu",), options={**_LLVM, "march": TargetOption(str)})
_register(("hybrid", "stackvm", "composite"), CPU, ("cpu",))
_register(("test",), CPU, ())
_register(("ext_dev",), EXT_DEV, ())
_register(("cuda", "nvptx"), CUDA, ("cuda", "gpu"), options=_GPU_CC)
_register(("opencl",), OPENCL, ("opencl", "gpu"), options={**_THREADS, "max_function_args": TargetOption(int, 128)})
_register(("vulkan",), VULKAN, ("vulkan", "gpu"), options=_THREADS)
_register(
    ("metal",),
    METAL,
    ("metal", "gpu"),
    options={
        **_THREADS,
        "thread_warp_size": TargetOption(int, 16),
        "max_function_args": TargetOption(int, 31),
    },
)
_register(
    ("rocm",),
    ROCM,
    ("rocm", "gpu"),
    options={
        "mcpu": TargetOption(str),
        "mtriple": TargetOption(str),
        "mattr": _texts(),
        "libs": _texts(),
        "max_num_threads": TargetOption(int, 256),
        "thread_warp_size": TargetOption(int, 64),
    },
)
_register(("webgpu",), WEBGPU, ("webgpu", "gpu"), options={"max_num_threads": TargetOption(int, 256)})
_register(("hexagon",), HEXAGON, ("hexagon",), options={**_LLVM, "num-cores": TargetOption(int)})
# the external compilers that TVM v0.18 names as kinds of target
_register(("cmsis-nn", "ethos-u", "test_external_codegen_0"), CPU, (), True)
_register(("ccompiler",), CPU, (), True, {"header": TargetOption(str, "")})
_register(("example_target_hook",), CPU, (), True, {"example_attribute": TargetOption(int, 0)})
_register(("tensorrt",), CUDA, (), True, _TENSORRT)
_register(("cutlass",), CUDA, (), True, _CUTLASS)
_register(("cublas", "cudnn", "test_external_codegen_1"), CUDA, (), True)
_register(("test_external_codegen_2",), METAL, (), True)
