"""Targets: where generated code runs, as TVM writes them. Source: ``tvm.target``.

A target names a kind and options. byoc's host is generated C whatever a CPU target says; a kind that is a registered
backend of byoc (``opencl``) takes regions.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from byoc.errors import UserError
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay.op.contrib.register import PATTERN_TABLES

HOST_KINDS = ("llvm", "c", "stackvm", "hybrid", "test", "ext_dev", "composite")
DEVICE_KINDS = ("cuda", "opencl", "vulkan", "metal", "rocm", "nvptx", "webgpu", "hexagon")


@dataclass
class TargetKind:
    """The kind of a target, by its name."""

    name: str

    def __str__(self) -> str:
        return self.name


KINDS: list[str] = [*HOST_KINDS, *DEVICE_KINDS]


def register_target_kind(name: str) -> None:
    """Make a vendor's name a kind of target (what ``TVM_REGISTER_TARGET_KIND`` does in C++)."""
    if name not in KINDS:
        KINDS.append(name)


class Target:
    """A kind with options, from ``"llvm -mcpu=x"``, a mapping or its JSON text. Source: ``tvm.target.Target``.

    Raises UserError for an unknown kind.
    """

    _local = threading.local()

    def __init__(self, target: str | Mapping[str, object] | Target, host: str | Mapping[str, object] | object = None):
        self.attrs: dict[str, object] = {}
        self.host: Target | None = Target(host) if host is not None else None  # type: ignore[arg-type]
        if isinstance(target, Target):
            self.kind, self.attrs = target.kind, dict(target.attrs)
            self.host = self.host or target.host
        elif isinstance(target, Mapping) or target.lstrip().startswith("{"):
            self._read(target if isinstance(target, Mapping) else json.loads(target))
        else:
            self._parse(target)
        if self.kind.name not in KINDS and not _is_compiler(self.kind.name):
            raise UserError(f"unknown kind of target {self.kind.name!r}; known: {', '.join(KINDS)}")

    def _read(self, fields: Mapping[str, object]) -> None:
        self.kind = TargetKind(str(fields["kind"]))
        self.attrs = {k: v for k, v in fields.items() if k not in ("kind", "host")}
        if fields.get("host") is not None and self.host is None:
            self.host = Target(fields["host"])  # type: ignore[arg-type]

    def _parse(self, text: str) -> None:
        words = text.split()
        if not words:
            raise UserError('a target is a kind and options, such as "llvm -mcpu=native", got an empty text')
        self.kind = TargetKind(words[0])
        for word in words[1:]:
            name, _, value = word.lstrip("-").partition("=")
            self.attrs[name] = value or True

    @property
    def keys(self) -> list[str]:
        """The keys by which schedules were chosen: the device's class."""
        return [str(self.attrs["device"])] if "device" in self.attrs else _KEYS.get(self.kind.name, ["cpu"])

    @property
    def mcpu(self) -> str:
        return str(self.attrs.get("mcpu", ""))

    @property
    def device_name(self) -> str:
        return str(self.attrs.get("device", ""))

    @property
    def libs(self) -> list[str]:
        return [lib for lib in str(self.attrs.get("libs", "")).split(",") if lib]

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
        return list(KINDS)

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
        options = [f"-{k}" if v is True else f"-{k}={v}" for k, v in self.attrs.items()]
        return " ".join([self.kind.name, *options])

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"


_KEYS = {"cuda": ["cuda", "gpu"], "opencl": ["opencl", "gpu"], "vulkan": ["vulkan", "gpu"], "metal": ["metal", "gpu"]}


def _is_compiler(name: str) -> bool:
    """Whether *name* is a registered external compiler: a kind of target too, as Collage takes it."""
    return f"relay.ext.{name}" in GLOBAL_FUNCTIONS or name in PATTERN_TABLES


def cuda(model: str = "unknown", arch: str | None = None, options: str | None = None) -> Target:
    """The target ``cuda``: it can be named and asked; byoc generates no code for it. Source: ``tvm.target.cuda``."""
    words = ["cuda", f"-model={model}", f"-arch={arch}" if arch else "", options or ""]
    return Target(" ".join(word for word in words if word))


@dataclass
class CompilationConfig:
    """The targets of a compilation, and which of them is the host. Source: ``tvm.target.CompilationConfig``."""

    primitive_targets: list[Target] = field(default_factory=list)
    host_target: Target | None = None

    @property
    def optional_homogeneous_target(self) -> Target | None:
        """The only target, where there is one."""
        return self.primitive_targets[0] if len(self.primitive_targets) == 1 else None


TargetLike = str | Mapping[object, object] | Target


def make_compilation_config(
    ctxt: object, target: TargetLike | Sequence[TargetLike], target_host: TargetLike | None = None
) -> CompilationConfig:
    """The configuration for one target, a list of them, or a mapping from devices to them."""
    several = isinstance(target, (list, tuple)) or (isinstance(target, Mapping) and "kind" not in target)
    given = list(target.values() if isinstance(target, Mapping) else target) if several else [target]  # type: ignore[arg-type]
    targets = [Target(t) for t in given]  # type: ignore[arg-type]
    host = Target(target_host) if target_host is not None else next((t.host for t in targets if t.host), None)  # type: ignore[arg-type]
    if host is None:
        host = next((t for t in targets if t.kind.name in HOST_KINDS), Target("llvm"))
    return CompilationConfig(targets, host)
