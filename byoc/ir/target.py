"""Targets: what code is generated for. A kind with options, and perhaps the target of its host. Source: ``tvm.target``.

A kind is registered, or is the name of an external compiler: one that has a code generator (``relay.ext.<name>``) or
a pattern table. Which of them byoc has code for is for the driver to say; here they only have names and devices.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from byoc.errors import UserError
from byoc.ir.registry import GLOBAL_FUNCTIONS, Registry

CPU, CUDA, OPENCL, VULKAN, METAL, ROCM, EXT_DEV, HEXAGON, WEBGPU = 1, 2, 4, 7, 8, 10, 12, 14, 15
IS_EXTERNAL_CODEGEN = "is_external_codegen"
RELAY_TO_TIR = "RelayToTIR"


def _fields(text: str) -> Mapping[str, object]:
    """The fields of a target that is given as JSON. Raises UserError for another text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"a target that begins with a brace is JSON: {error}") from error
    if not isinstance(found, dict):
        raise UserError("a target that begins with a brace is an object of JSON")
    return found


@dataclass(frozen=True)
class TargetKind:
    """A kind of target: its name, DLPack's number of its devices, and the keys by which schedules are chosen."""

    name: str
    device_type: int = CPU
    keys: tuple[str, ...] = ("cpu",)
    is_external_codegen: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def default_device_type(self) -> int:
        """DLPack's number of the devices. Source: ``TargetKind::default_device_type``."""
        return self.device_type


TARGET_KINDS: Registry[TargetKind] = Registry("kind of target")
# each says whether a name is an external compiler's
KNOWS_COMPILER: list[Callable[[str], bool]] = [lambda name: f"relay.ext.{name}" in GLOBAL_FUNCTIONS]


def register_target_kind(name: str, device_type: int = CPU, is_external_codegen: bool = True) -> TargetKind:
    """Make a vendor's name a kind of target (what ``TVM_REGISTER_TARGET_KIND`` does in C++); again changes nothing."""
    if name not in TARGET_KINDS:
        TARGET_KINDS.register(name, TargetKind(name, device_type, (), is_external_codegen))
    return TARGET_KINDS[name]


def target_kind(name: str) -> TargetKind:
    """The kind *name*. Raises UserError for one that is neither registered nor an external compiler."""
    if name in TARGET_KINDS:
        return TARGET_KINDS[name]
    if any(knows(name) for knows in KNOWS_COMPILER):
        return TargetKind(name, CPU, (), True)
    raise UserError(f"unknown kind of target {name!r}; known: {', '.join(TARGET_KINDS)}")



class Target:
    """A kind with options, from ``"llvm -mcpu=x"``, a mapping or its JSON text. Source: ``tvm.target.Target``.

    Raises UserError for an unknown kind.
    """

    _local = threading.local()

    def __init__(
        self,
        target: str | Mapping[str, object] | Target,
        host: str | Mapping[str, object] | Target | None = None,
    ):
        self.attrs: dict[str, object] = {}
        self.host: Target | None = Target(host) if host is not None else None
        if isinstance(target, Target):
            self.kind, self.attrs = target.kind, dict(target.attrs)
            self.host = self.host or target.host
        elif isinstance(target, Mapping) or target.lstrip().startswith("{"):
            self._read(target if isinstance(target, Mapping) else _fields(target))
        else:
            self._parse(target)

    def _read(self, fields: Mapping[str, object]) -> None:
        if "kind" not in fields:
            raise UserError(f"a target given by its fields has a kind, got {', '.join(map(str, fields)) or 'none'}")
        self.kind = target_kind(str(fields["kind"]))
        self.attrs = {k: v for k, v in fields.items() if k not in ("kind", "host")}
        if fields.get("host") is not None and self.host is None:
            self.host = Target(fields["host"])  # type: ignore[arg-type]

    def _parse(self, text: str) -> None:
        words = text.split()
        if not words:
            raise UserError('a target is a kind and options, such as "llvm -mcpu=native", got an empty text')
        self.kind = target_kind(words[0])
        for word in words[1:]:
            name, _, value = word.lstrip("-").partition("=")
            self.attrs[name] = value or True

    @property
    def is_external_codegen(self) -> bool:
        """True where an external compiler generates the code, by functions with its name as ``Compiler``."""
        return self.kind.is_external_codegen

    def is_external_codegen_for(self, that: Target) -> bool:
        """True where this is an external compiler for the devices of *that*, which is none."""
        same = self.get_target_device_type() == that.get_target_device_type()
        return same and self.is_external_codegen and not that.is_external_codegen

    def get_target_device_type(self) -> int:
        """DLPack's number of the target's devices."""
        return int(self.attrs.get("target_device_type", self.kind.device_type))  # type: ignore[call-overload]

    def get_kind_attr(self, attr_name: str) -> object:
        """What is registered of the kind under *attr_name*, or None. Source: ``Target.get_kind_attr``."""
        return self.kind.is_external_codegen if attr_name == IS_EXTERNAL_CODEGEN else None

    def with_host(self, host: str | Mapping[str, object] | Target) -> Target:
        """The same target with that host. Source: ``Target.with_host``."""
        return Target(self, host)

    @property
    def keys(self) -> list[str]:
        """The keys by which schedules were chosen: those given, the device's class, those of the kind."""
        given = self.attrs.get("keys", ())
        named = given.split(",") if isinstance(given, str) else list(given)  # type: ignore[call-overload]
        device = [str(self.attrs["device"])] if "device" in self.attrs else []
        return list(dict.fromkeys([*named, *device, *(() if named or device else self.kind.keys)]))

    @property
    def mcpu(self) -> str:
        """The processor, empty where none is named."""
        return str(self.attrs.get("mcpu", ""))

    @property
    def mattr(self) -> list[str]:
        """The features of the processor, such as ``+neon``."""
        given = self.attrs.get("mattr", ())
        return [name for name in given.split(",") if name] if isinstance(given, str) else list(given)  # type: ignore[call-overload]

    @property
    def device_name(self) -> str:
        """The class of device, empty where none is named."""
        return str(self.attrs.get("device", ""))

    @property
    def model(self) -> str:
        """The model of device, ``unknown`` where none is named."""
        return str(self.attrs.get("model", "unknown"))

    @property
    def libs(self) -> list[str]:
        """The libraries that the target may call."""
        given = self.attrs.get("libs", "")
        return [lib for lib in given.split(",") if lib] if isinstance(given, str) else list(given)  # type: ignore[call-overload]

    @classmethod
    def _stack(cls) -> list[Target]:
        if not hasattr(cls._local, "stack"):
            cls._local.stack = []
        return cls._local.stack

    @classmethod
    def current(cls, allow_none: bool = True) -> Target | None:
        """The innermost ``with`` target of this thread. Raises UserError without one unless *allow_none*."""
        if cls._stack():
            return cls._stack()[-1]
        if allow_none:
            return None
        raise UserError("there is no current target: enter one with `with tvm.target.Target(...):`")

    @staticmethod
    def list_kinds() -> list[str]:
        """The known kinds of target."""
        return list(TARGET_KINDS)

    @staticmethod
    def canon_target(target: str | Mapping[str, object] | Target | None) -> Target | None:
        """*target* as a Target, None as None. Source: ``Target.canon_target``."""
        return None if target is None else target if isinstance(target, Target) else Target(target)

    def export(self) -> dict[str, object]:
        """The target as a mapping, from which it can be made again."""
        host = {"host": self.host.export()} if self.host is not None else {}
        return {"kind": self.kind.name, **self.attrs, **host}

    def __enter__(self) -> Target:
        self._stack().append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack().pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and other.export() == self.export()

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        options = [f"-{k}" if v is True else f"-{k}={_option(v)}" for k, v in self.attrs.items()]
        return " ".join([self.kind.name, *options])

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"


def _option(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def _register(names: Sequence[str], device_type: int, keys: tuple[str, ...], external: bool = False) -> None:
    for name in names:
        TARGET_KINDS.register(name, TargetKind(name, device_type, keys, external))


_register(("llvm", "c", "hybrid", "stackvm", "composite"), CPU, ("cpu",))
_register(("test",), CPU, ())
_register(("ext_dev",), EXT_DEV, ())
_register(("cuda", "nvptx"), CUDA, ("cuda", "gpu"))
_register(("opencl",), OPENCL, ("opencl", "gpu"))
_register(("vulkan",), VULKAN, ("vulkan", "gpu"))
_register(("metal",), METAL, ("metal", "gpu"))
_register(("rocm",), ROCM, ("rocm", "gpu"))
_register(("webgpu",), WEBGPU, ("webgpu", "gpu"))
_register(("hexagon",), HEXAGON, ("hexagon",))
# the external compilers that TVM v0.18 names as kinds of target
_register(("example_target_hook", "ccompiler", "cmsis-nn", "ethos-u", "test_external_codegen_0"), CPU, (), True)
_register(("tensorrt", "cutlass", "cublas", "cudnn", "test_external_codegen_1"), CUDA, (), True)
_register(("test_external_codegen_2",), METAL, (), True)
