"""The vendor's contract: a Backend says what it can do and why not, and compiles what it was given.

Two ways in, one contract. Natively: subclass :class:`Backend` and register it with :func:`register_backend` (or by an
entry point of the group ``byoc.backends``). As for TVM's Relay: ``register_pattern_table``,
``register_op_attr("nn.conv2d", "target.acme")`` and ``register_func("relay.ext.acme")``; :func:`get_backend` adapts
such an integration. Each native backend is also found as ``relay.ext.<name>``.

A constraint is a function of a call with a docstring that says what is supported; it returns None where the call
satisfies it, and else the value that it found. The same docstring documents the backend and explains a refusal::

    @constraint("dtype")
    def floats_only(call):
        \"\"\"float32 only\"\"\"
        return None if call.checked_type.dtype == "float32" else call.checked_type.dtype
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.errors import PartitionError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Cost, Op
from byoc.ir.registry import GLOBAL_FUNCTIONS, Registry, caller_location, register_func
from byoc.ir.span import span_names
from byoc.relay.dataflow_pattern import DFPattern
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.op.contrib.register import (
    ENTRY_POINT_GROUP,
    PATTERN_TABLES,
    TARGET_LOADERS,
    TARGET_PREDICATES,
    get_pattern_table,
)
from byoc.relay.traverse import post_order
from byoc.runtime.module import Module
from byoc.runtime.ndarray import NDArray, from_any


@dataclass(frozen=True)
class Reason:
    """Why a backend does not take a call: the constraint's code and text, and the value found."""

    code: str
    text: str
    actual: str = ""

    def __str__(self) -> str:
        return f"{self.text}, got {self.actual}" if self.actual else self.text


@dataclass(frozen=True)
class Verdict:
    """Whether a backend takes a call, and if not, every reason; ``str()`` is the sentence for a report."""

    accepted: bool
    operator: str
    nodes: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()

    def __bool__(self) -> bool:
        return self.accepted

    def __str__(self) -> str:
        where = f" (node {', '.join(self.nodes)})" if self.nodes else ""
        if self.accepted:
            return f"{self.operator}: accepted{where}"
        return f"{self.operator}: {'; '.join(map(str, self.reasons))}{where}"


@dataclass(frozen=True)
class Constraint:
    """A named condition on a call. Calling it gives the reason for a refusal, or None."""

    code: str
    text: str
    check: Callable[[Call], object | None]

    def __call__(self, call: Call) -> Reason | None:
        actual = self.check(call)
        return None if actual is None else Reason(self.code, self.text, str(actual))


def constraint(code: str) -> Callable[[Callable[[Call], object | None]], Constraint]:
    """Make a constraint of a function whose docstring says what is supported. Raises PartitionError without one."""

    def make(check: Callable[[Call], object | None]) -> Constraint:
        text = " ".join((check.__doc__ or "").split()).rstrip(".")
        if not text:
            raise PartitionError(f"constraint {code!r} needs a docstring: it is the text that explains a refusal")
        return Constraint(code, text, check)

    return make


def callee_name(call: Call) -> str:
    """The operator's name; for a call of a composite function the composite's name."""
    if isinstance(call.op, Op):
        return call.op.name
    if isinstance(call.op, Function):
        return str(call.op.attrs.get("Composite", "function"))
    return type(call.op).__name__


def judge(call: Call, constraints: Iterable[Constraint]) -> Verdict:
    """The verdict of *constraints* on *call*: accepted when every one is satisfied."""
    reasons = tuple(r for c in constraints if (r := c(call)) is not None)
    return Verdict(not reasons, callee_name(call), span_names(call.span), reasons)


def refuse(call: Call, code: str, text: str, actual: str = "") -> Verdict:
    """A refusal for one reason."""
    return Verdict(False, callee_name(call), span_names(call.span), (Reason(code, text, actual),))


def accept(call: Call) -> Verdict:
    """An acceptance."""
    return Verdict(True, callee_name(call), span_names(call.span))


Check = Callable[[RelayExpr], bool]


@dataclass(frozen=True)
class PatternEntry:
    """A row of a pattern table: the composite's name (``acme.conv2d_relu``), the pattern, and a check of the match."""

    name: str
    pattern: DFPattern
    check: Check | None = None


@dataclass(frozen=True)
class Limits:
    """Hard limits of a backend; None is none. ``min_operators`` is the least size of a region worth a launch.

    ``max_bytes`` are those of a region's weights and the peak of its activations (policy ``order`` counts the weights
    alone); ``min_gain`` is what a region must save to be worth it, in microseconds, which only policy ``cost`` knows.
    """

    max_operators: int | None = None
    max_bytes: int | None = None
    max_regions: int | None = None
    min_operators: int = 1
    min_gain: float = 0.0


class Backend:
    """What brings an accelerator: subclass it, set ``name``, and give at least ``supports`` and ``compile``."""

    name: str = ""
    limits: Limits = Limits()
    devices: Sequence[str] = ("cpu",)

    def patterns(self) -> Sequence[PatternEntry]:
        """The pattern table in order of preference: groups of operators that become one composite function."""
        return ()

    def supports(self, call: Call) -> Verdict:
        """Whether this backend takes *call*: of an operator, or of a composite of its own pattern table."""
        raise NotImplementedError

    def places(self) -> Sequence[str]:
        """Where this backend has kernels, as ``target/precision/layout/device`` with itself as the target.

        For each call that ``supports`` accepts there is one at each of these places; ``any`` takes tensors as they
        come. Policy ``score`` chooses among them.
        """
        return (f"{self.name}/any/any",)

    def cost(self, region: Function) -> Cost | None:
        """What a region costs, where the backend knows better than the operators do."""
        return None

    def unavailable(self) -> str | None:
        """One sentence when the backend cannot work on this machine (a missing package or device), else None."""
        return None

    def optimize(self, region: Function) -> Function:
        """A last change to a region before it is compiled (``relay.ext.<name>.optimize``)."""
        return region

    def compile(self, function: Function, options: Mapping[str, object]) -> Module:
        """Turn a region into a runtime module with a function of the region's ``global_symbol``.

        *function* carries ``Compiler`` and ``global_symbol``; its constants are in its body. Raises CompileError.
        """
        raise NotImplementedError


BACKENDS: Registry[Backend] = Registry("backend")


def register_backend(backend: type[Backend] | Backend) -> type[Backend] | Backend:
    """Register a backend (class or object), as a call or as a class decorator, also as ``relay.ext.<name>``.

    Raises PartitionError when it has no name, RegistryError when the name is taken.
    """
    instance = backend() if isinstance(backend, type) else backend
    if not instance.name:
        raise PartitionError(f"{type(instance).__name__} needs a name: the target that users will write")
    where = caller_location()
    BACKENDS.register(instance.name, instance, where=where)
    TARGET_PREDICATES.register(instance.name, instance.supports, where=where)
    PATTERN_TABLES.register(
        instance.name, lambda: [(e.name, e.pattern, e.check) for e in instance.patterns()], where=where
    )
    register_func(f"relay.ext.{instance.name}", lambda function: instance.compile(function, {}))
    if type(instance).optimize is not Backend.optimize:
        register_func(
            f"relay.ext.{instance.name}.optimize", lambda mod: IRModule({"main": instance.optimize(mod["main"])})
        )
    return backend


@dataclass
class _EntryPoints:
    loaded: set[str] = field(default_factory=set)
    broken: dict[str, str] = field(default_factory=dict)


_ENTRY_POINTS = _EntryPoints()


def load_entry_point(name: str) -> None:
    """Import the installed package that brings backend *name*, once; what breaks there is kept for reports."""
    if name in _ENTRY_POINTS.loaded:
        return
    _ENTRY_POINTS.loaded.add(name)
    for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        if entry.name == name:
            try:
                loaded = entry.load()
            except Exception as error:  # a broken vendor package must not break the others
                _ENTRY_POINTS.broken[name] = f"{type(error).__name__}: {error}"
                continue
            if isinstance(loaded, type) and issubclass(loaded, Backend) and name not in BACKENDS:
                register_backend(loaded)


TARGET_LOADERS.register(ENTRY_POINT_GROUP, load_entry_point, where=__name__)


def backend_names() -> list[str]:
    """The names of all backends: registered, installed, or known by a Relay-style ``relay.ext.<name>``."""
    names = set(BACKENDS)
    names.update(entry.name for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP))
    names.update(
        key.removeprefix("relay.ext.")
        for key in GLOBAL_FUNCTIONS
        if key.startswith("relay.ext.") and key.count(".") == 2
    )
    return sorted(names)


def get_backend(name: str) -> Backend:
    """The backend *name*. Raises PartitionError with the known names, or with what broke its package."""
    load_entry_point(name)
    if name in BACKENDS:
        return BACKENDS[name]
    if name in _ENTRY_POINTS.broken:
        raise PartitionError(f"the package of backend {name!r} cannot be imported: {_ENTRY_POINTS.broken[name]}")
    if f"relay.ext.{name}" in GLOBAL_FUNCTIONS:
        return RelayStyleBackend(name)
    raise PartitionError(f"no backend is called {name!r}; known: {', '.join(backend_names()) or 'none'}")


class RelayStyleBackend(Backend):
    """An integration in the style of TVM's Relay, seen through the contract."""

    def __init__(self, name: str):
        self.name = name

    def patterns(self) -> Sequence[PatternEntry]:
        return [PatternEntry(*row) for row in get_pattern_table(self.name) or ()]

    def supports(self, call: Call) -> Verdict:
        if isinstance(call.op, Function):
            mine = str(call.op.attrs.get("Composite", "")).split(".")[0] == self.name
            return accept(call) if mine else refuse(call, "composite", f"only composites of {self.name}")
        predicate = call.op.get_attr(f"target.{self.name}") if isinstance(call.op, Op) else None
        if predicate is None:
            return refuse(call, "operator", f"{self.name} has no annotation for this operator")
        if predicate(call):
            return accept(call)
        return refuse(call, "predicate", f"the predicate target.{self.name} refused it")

    def compile(self, function: Function, options: Mapping[str, object]) -> Module:
        """The module that ``relay.ext.<name>`` gives, with the constants that it asks for by Relay's names."""
        compiler = GLOBAL_FUNCTIONS[f"relay.ext.{self.name}"]
        module: Module = compiler(function.without_attr("Compiler"))  # type: ignore[assignment]
        if isinstance(module, Module) and any(module.constants().values()):
            given: Mapping[str, NDArray] = getattr(module, "constant_arrays", {})
            module.constant_arrays = {**self._constants(function), **given}  # type: ignore[attr-defined]
        return module

    def _constants(self, function: Function) -> dict[str, NDArray]:
        """Constants by name: from ``relay.ext.<name>.constant_updater``, else ``<symbol>_const_<i>`` in post-order."""
        symbol = str(function.attrs["global_symbol"])
        updater = GLOBAL_FUNCTIONS.get(f"relay.ext.{self.name}.constant_updater")
        if updater is not None:
            named: Mapping[str, object] = updater(function, symbol)  # type: ignore[assignment]
            return {str(name): NDArray(from_any(value)) for name, value in named.items()}
        constants = [node for node in post_order(function) if isinstance(node, Constant)]
        return {f"{symbol}_const_{k}": constant.data for k, constant in enumerate(constants)}
