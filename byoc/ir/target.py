"""Targets: what code is generated for: a kind with options, and perhaps a host's target. Source: ``tvm.target``."""

from __future__ import annotations

import contextlib
import json
import shlex
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

from byoc.errors import UserError
from byoc.ir.attrs import as_int, as_list

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


class Target:
    """A kind with options, from ``"llvm -mcpu=x"``, a mapping or its JSON text. Source: ``tvm.target.Target``.

    ``attrs`` holds the options, as the types that the kind declares, with its defaults.
    Raises UserError for an unknown kind, and for an option of another type than declared.
    """

    _local = threading.local()

    def __init__(
        self,
        target: str | Mapping[str, object] | Target,
        host: str | Mapping[str, object] | Target | None = None,
    ):
        from byoc.ir.target_kind import target_kind

        if isinstance(target, Target):
            fields: Mapping[str, object] = target.export()
        elif isinstance(target, Mapping) or target.lstrip().startswith("{"):
            fields = target if isinstance(target, Mapping) else _fields(target)
        else:
            fields = _words(target)
        if "kind" not in fields:
            raise UserError(f"a target given by its fields has a kind, got {', '.join(map(str, fields)) or 'none'}")
        self.kind = target_kind(str(fields["kind"]))
        self.attrs = self.kind.attributes({k: v for k, v in fields.items() if k not in ("kind", "host", "keys")})
        self.keys = self._all_keys(fields.get("keys"))
        within = fields.get("host") if host is None else host
        self.host: Target | None = None if within is None else as_target(within)

    def _all_keys(self, given: object) -> list[str]:
        """The keys by which schedules were chosen: those given, the device's class, those of the kind."""
        named = given.split(",") if isinstance(given, str) else [str(key) for key in as_list(given or ())]
        device = [str(self.attrs["device"])] if "device" in self.attrs else []
        return list(dict.fromkeys([*named, *device, *(() if given else self.kind.keys)]))

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
        return as_int(self.attrs.get("target_device_type", self.kind.device_type))

    def get_kind_attr(self, attr_name: str) -> object:
        """What is registered of the kind under *attr_name*, or None. Source: ``Target.get_kind_attr``."""
        return self.kind.is_external_codegen if attr_name == IS_EXTERNAL_CODEGEN else None

    def with_host(self, host: str | Mapping[str, object] | Target) -> Target:
        """The same target with that host. Source: ``Target.with_host``."""
        return Target(self, host)

    @property
    def mcpu(self) -> str:
        """The processor, empty where none is named."""
        return str(self.attrs.get("mcpu", ""))

    @property
    def mattr(self) -> list[str]:
        """The features of the processor, such as ``+neon``."""
        given = self.attrs.get("mattr", ())
        return _names(given)

    @property
    def device_name(self) -> str:
        """The class of device, empty where none is named."""
        return str(self.attrs.get("device", ""))

    @property
    def model(self) -> str:
        """The model of device, ``unknown`` where none is named."""
        return str(self.attrs.get("model", "unknown"))

    @property
    def max_function_args(self) -> int:
        """The most arguments of a kernel, 0 without a limit. Source: ``Target.max_function_args``."""
        return as_int(self.attrs.get("max_function_args", 0))

    @property
    def libs(self) -> list[str]:
        """The libraries that the target may call."""
        given = self.attrs.get("libs", "")
        return _names(given)

    @classmethod
    def _stack(cls) -> list[Target]:
        if not hasattr(cls._local, "stack"):
            cls._local.stack = []
        stack: list[Target] = cls._local.stack
        return stack

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
        from byoc.ir.target_kind import TARGET_KINDS

        return list(TARGET_KINDS)

    @staticmethod
    def canon_target(target: str | Mapping[str, object] | Target | None) -> Target | None:
        """*target* as a Target, None as None. Source: ``Target.canon_target``."""
        return None if target is None else target if isinstance(target, Target) else Target(target)

    def export(self) -> dict[str, object]:
        """The target as a mapping, from which it can be made again."""
        host = {"host": self.host.export()} if self.host is not None else {}
        return {"kind": self.kind.name, "keys": list(self.keys), **self.attrs, **host}

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
        keys = [f"-keys={','.join(self.keys)}"] if self.keys else []
        return " ".join([self.kind.name, *keys, *(f"-{k}={_option(v)}" for k, v in sorted(self.attrs.items()))])

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"


@contextlib.contextmanager
def region_targets(targets: Iterable[Target]) -> Iterator[None]:
    """Within, in this thread, :func:`entered_for` finds *targets* by the names of their kinds."""
    before = _OF_REGIONS.by_kind
    _OF_REGIONS.by_kind = {**before, **{target.kind.name: target for target in targets}}
    try:
        yield
    finally:
        _OF_REGIONS.by_kind = before


def entered_for(compiler: str) -> contextlib.AbstractContextManager[object]:
    """The target among :func:`region_targets` that is the *compiler*'s, to enter; a context of nothing without one."""
    return _OF_REGIONS.by_kind.get(compiler, contextlib.nullcontext())


class _OfRegions(threading.local):
    """The targets of a build by the names of their kinds."""

    def __init__(self) -> None:
        self.by_kind: Mapping[str, Target] = {}


_OF_REGIONS = _OfRegions()
Targets = tuple[list[Target], Mapping[str, Target]]


def targets_of_thread() -> Targets:
    """The targets that were entered on this thread, and those of the build that it makes."""
    return list(Target._stack()), _OF_REGIONS.by_kind


def with_targets_of(targets: Targets) -> None:
    """Have this thread know *targets*, those of another."""
    Target._local.stack, _OF_REGIONS.by_kind = list(targets[0]), targets[1]


def as_target(given: object) -> Target:
    """*given* as a target. Raises UserError for what names none."""
    if not isinstance(given, (str, Mapping, Target)):
        raise UserError(f"a target is a text, a mapping of its fields or a Target, got {given!r}")
    return Target(given)


def _names(given: object) -> list[str]:
    """The names in an option: a list of them, or a text with commas between."""
    if isinstance(given, str):
        return [name for name in given.split(",") if name]
    return [str(name) for name in as_list(given)]


def _words(text: str) -> dict[str, object]:
    """The fields of a target's text: a kind, then ``-name=value``, ``-name value`` or ``-name``, which is true."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"the target {text!r} cannot be read: {error}") from error
    if not words:
        raise UserError('a target is a kind and options, such as "llvm -mcpu=native", got an empty text')
    fields: dict[str, object] = {"kind": words.pop(0)}
    while words:
        name, equals, value = words.pop(0).lstrip("-").partition("=")
        follows = not equals and words and not words[0].startswith("-")
        fields[name] = value if equals else words.pop(0) if follows else True
    return fields


def _option(value: object) -> str:
    """An option's value as a target's text has it: lists by commas, truth as 1 and 0."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(_option, value))
    text = str(int(value)) if isinstance(value, bool) else str(value)
    return shlex.quote(text) if not text or any(c.isspace() or c in "\"'" for c in text) else text
