"""The vendor's contract: a Backend says what it can do and why not, and compiles what it was given.

Two ways in, one contract. Natively: subclass :class:`Backend` and register it with :func:`register_backend` (or by an
entry point of the group ``byoc.backends``). As for TVM's Relay: ``register_pattern_table``,
``register_op_attr("nn.conv2d", "target.acme")`` and ``register_func("relay.ext.acme")``; :func:`get_backend` adapts
such an integration. Each native backend is also found as ``relay.ext.<name>``.

A constraint is a function of a call with a docstring that says what is supported; it returns None where the call
satisfies it, and else the value that it found. The same docstring documents the backend (``support_table.py``) and
explains a refusal (``verdict.py``). In ``Backend.constraints`` it is asked about operators and composites, as the check
of a pattern about matches; with ``of`` it is about certain operators, wherever they stand::

    @constraint("dtype")
    def floats_only(call):
        \"\"\"float32 only\"\"\"
        return None if call.checked_type.dtype == "float32" else call.checked_type.dtype

    @constraint("kernel", of="nn.conv2d")
    def small_kernel(call):
        \"\"\"kernel at most 7\"\"\"
        return next((k for k in call.attrs.kernel_size if k > 7), None)
"""

from __future__ import annotations

import difflib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from byoc.codegen.limits import Limits
from byoc.codegen.verdict import (
    EVERY,
    Constraint,
    ConstraintCheck,
    Reason,
    Verdict,
    accept,
    callee_name,
    constraint,
    first_sentence,
    judge,
    place_of,
    refuse,
)
from byoc.errors import CompileError, InternalError, PartitionError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import OPS, Cost, Op
from byoc.ir.registry import GLOBAL_FUNCTIONS, Registry, caller_location, register_func
from byoc.ir.target import entered_for
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

Check = Callable[[RelayExpr], object]


@dataclass(frozen=True)
class PatternEntry:
    """A row of a pattern table: the composite's name (``acme.conv2d_relu``), the pattern, and a check of the match.

    The check is a function of the match's root, or a sequence of constraints, which are asked about the composite that
    the match would become and kept as one :class:`ConstraintCheck`; a match that they refuse is told with its reasons.
    """

    name: str
    pattern: DFPattern
    check: Check | Sequence[Constraint] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.check, Sequence):
            object.__setattr__(self, "check", ConstraintCheck(tuple(self.check)) if self.check else None)

    @property
    def asked(self) -> Check | None:
        """The check as matches are asked: constraints are one :class:`ConstraintCheck`."""
        assert not isinstance(self.check, Sequence)  # since __post_init__
        return self.check


class Backend:
    """What brings an accelerator: subclass it, set ``name``, and give at least ``compile``, and ``constraints`` or
    ``supports``.

    ``options`` are the names of those that ``compile`` knows; others are then refused. With None it is given any.
    """

    name: str = ""
    constraints: Sequence[Constraint] = ()
    limits: Limits = Limits()
    devices: Sequence[str] = ("cpu",)
    options: Sequence[str] | None = None

    def patterns(self) -> Sequence[PatternEntry]:
        """The pattern table in order of preference: groups of operators that become one composite function."""
        return ()

    def supports(self, call: Call) -> Verdict:
        """Whether this backend takes *call*: of an operator, or of a composite of its own pattern table.

        Where every one of ``constraints`` holds, unless a backend says otherwise.
        """
        if not self.constraints:
            raise NotImplementedError(f"backend {self.name} has neither constraints nor supports")
        return judge(call, self.constraints)

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
    """The backend *name*. Raises PartitionError with the known names, with what broke its package, or for a constraint
    about an operator that there is not, which would never be asked.
    """
    load_entry_point(name)
    if name in BACKENDS:
        backend = BACKENDS[name]
        if backend not in _KNOWN:
            _check_names(backend)
            _KNOWN.add(backend)
        return backend
    if name in _ENTRY_POINTS.broken:
        raise PartitionError(f"the package of backend {name!r} cannot be imported: {_ENTRY_POINTS.broken[name]}")
    if f"relay.ext.{name}" in GLOBAL_FUNCTIONS:
        return RelayStyleBackend(name)
    raise PartitionError(f"no backend is called {name!r}; known: {', '.join(backend_names()) or 'none'}")


_KNOWN: WeakSet[Backend] = WeakSet()  # whose constraints are about operators that there are


def _check_names(backend: Backend) -> None:
    """Not when it is registered, since the operators of a vendor may be registered after it."""
    try:
        entries = backend.patterns()
    except Exception:  # told where the patterns are asked for
        entries = ()
    checks = [e.check.constraints for e in entries if isinstance(e.check, ConstraintCheck)]
    known = {EVERY, *OPS, *(e.name for e in entries)}
    for condition in (*backend.constraints, *(c for check in checks for c in check)):
        other = next((name for name in condition.of if name not in known), None)
        if other is not None:
            near = difflib.get_close_matches(other, sorted(known), n=5)
            raise PartitionError(
                f"backend {backend.name!r}: its constraint {condition.code!r} is about {other!r}, which is neither an "
                f"operator nor one of its patterns{'; the nearest: ' if near else ''}{', '.join(near)}"
            )


def checked_options(given: Mapping[str, Mapping[str, object]]) -> Mapping[str, Mapping[str, object]]:
    """*given*, options by the names of their backends.

    Raises PartitionError for a backend that nobody registered, CompileError for an option that one does not have.
    """
    for name, options in given.items():
        if not isinstance(options, Mapping):
            raise CompileError(f"the options of backend {name} are a mapping by their names, got {options!r}")
        known = _options_of(get_backend(name))
        unknown = [option for option in options if known is not None and option not in known]
        if unknown:
            raise CompileError(_no_option(name, unknown[0], known or ()))
    return given


def _options_of(backend: Backend) -> Sequence[str] | None:
    """The options that *backend* declares for its ``compile``; None where that is its own and nothing is declared."""
    if "options" in vars(backend):
        return backend.options
    for kind in type(backend).__mro__:
        if "options" in vars(kind):
            return vars(kind)["options"]  # type: ignore[no-any-return]
        if "compile" in vars(kind):
            return None
    return None


def _no_option(backend: str, option: str, known: Sequence[str]) -> str:
    if not known:
        return f"backend {backend} takes no options, got {option!r}: leave it out"
    near = difflib.get_close_matches(option, known, n=1)
    hint = f", of which {near[0]!r} is the nearest" if near else ""
    return f"backend {backend} has no option {option!r}: it takes {', '.join(known)}{hint}"


def contradiction(backend: Backend, region: Function, refusal: str) -> InternalError:
    """The error for a region that *backend* took by its verdicts and its code generator then refused, in words.

    Verdicts and code generator answer by one table of constraints, so that this is a mistake in one of both.
    """
    operators = dict.fromkeys(
        place_of(n) for n in post_order(region.body) if isinstance(n, Call) and isinstance(n.op, Op)
    )
    table = ", ".join(c.code for c in backend.constraints) or "none: its verdicts come from supports()"
    return InternalError(
        f"backend {backend.name!r} accepted {'; '.join(operators)}, and its code generator refuses it: {refusal}; "
        f"the constraints that accepted it ({table}) must say so when asked"
    )


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
        predicate: Any = call.op.get_attr(f"target.{self.name}") if isinstance(call.op, Op) else None
        if predicate is None:
            return refuse(call, "operator", f"{self.name} has no annotation for this operator")
        if predicate(call):
            return accept(call)
        return refuse(call, "predicate", first_sentence(predicate) or f"the predicate target.{self.name} refused it")

    def compile(self, function: Function, options: Mapping[str, object]) -> Module:
        """The module that ``relay.ext.<name>`` gives, with the constants that it asks for by Relay's names."""
        compiler = GLOBAL_FUNCTIONS[f"relay.ext.{self.name}"]
        with entered_for(self.name):  # the target of this kind that the build was given is the current one
            module: Module = compiler(function.without_attr("Compiler"))
        if isinstance(module, Module) and any(module.constants().values()):
            given: Mapping[str, NDArray] = getattr(module, "constant_arrays", {})
            module.constant_arrays = {**self._constants(function), **given}  # type: ignore[attr-defined]
        return module

    def _constants(self, function: Function) -> dict[str, NDArray]:
        """Constants by name: from ``relay.ext.<name>.constant_updater``, else ``<symbol>_const_<i>`` in post-order."""
        symbol = str(function.attrs["global_symbol"])
        updater = GLOBAL_FUNCTIONS.get(f"relay.ext.{self.name}.constant_updater")
        if updater is not None:
            named: Mapping[str, object] = updater(function, symbol)
            return {str(name): NDArray(from_any(value)) for name, value in named.items()}
        constants = [node for node in post_order(function) if isinstance(node, Constant)]
        return {f"{symbol}_const_{k}": constant.data for k, constant in enumerate(constants)}


__all__ = [
    "BACKENDS",
    "EVERY",
    "Backend",
    "Constraint",
    "ConstraintCheck",
    "Limits",
    "PatternEntry",
    "Reason",
    "RelayStyleBackend",
    "Verdict",
    "accept",
    "backend_names",
    "callee_name",
    "checked_options",
    "constraint",
    "contradiction",
    "first_sentence",
    "get_backend",
    "judge",
    "load_entry_point",
    "refuse",
    "register_backend",
]
