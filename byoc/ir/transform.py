"""The pass manager: passes as values, sequences of them, and the context in which they run.

A pass is a function from a module to a module. Source: ``tvm.transform``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from byoc.errors import UserError
from byoc.ir.collector import paused_collector
from byoc.ir.module import IRModule
from byoc.ir.registry import Registry


@dataclass(frozen=True)
class PassInfo:
    """The name of a pass, the level from which it runs, and the passes that must have run before it."""

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()


class PassInstrument:
    """What looks on while passes run: override the methods of interest. Source: ``tvm.ir.instrument``."""

    def enter_pass_ctx(self) -> None:
        """The context is entered."""

    def exit_pass_ctx(self) -> None:
        """The context is left."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """False to skip the pass."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """The pass is about to run."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """The pass has run and made *mod*."""


class PassTimingInstrument(PassInstrument):
    """Wall time of each pass, nested passes indented. Source: ``PassTimingInstrument``."""

    def __init__(self) -> None:
        self.profiles: list[tuple[str, int, float]] = []
        self._open: list[tuple[int, float]] = []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._open.append((len(self.profiles), time.perf_counter()))
        self.profiles.append((info.name, len(self._open) - 1, 0.0))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        index, start = self._open.pop()
        name, depth, _ = self.profiles[index]
        self.profiles[index] = (name, depth, time.perf_counter() - start)

    def render(self) -> str:
        """One line a pass: its name and milliseconds."""
        return "\n".join(f"{'  ' * depth}{name}: {seconds * 1e3:.2f} ms" for name, depth, seconds in self.profiles)


CONFIG_OPTIONS: Registry[type] = Registry("pass config option")


def register_config_option(name: str, kind: type) -> None:
    """Declare a key of ``PassContext(config=…)`` and the type of its value."""
    CONFIG_OPTIONS.register(name, kind)


class PassContext:
    """What passes run under: the optimisation level, forced and disabled passes, options, and instruments.

    Used as ``with PassContext(opt_level=3): …``. Raises AttributeError for an unknown config key, as Relay does.
    """

    _local = threading.local()

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] = (),
        disabled_pass: Sequence[str] = (),
        instruments: Sequence[PassInstrument] = (),
        config: Mapping[str, object] | None = None,
    ):
        for key in config or {}:
            if key not in CONFIG_OPTIONS:
                known = ", ".join(sorted(CONFIG_OPTIONS)) or "none"
                raise AttributeError(f"Invalid config option '{key}'; known options: {known}")
        self.opt_level = opt_level
        self.required_pass = tuple(required_pass)
        self.disabled_pass = tuple(disabled_pass)
        self.instruments = tuple(instruments)
        self.config = dict(config or {})

    @classmethod
    def _stack(cls) -> list[PassContext]:
        if not hasattr(cls._local, "stack"):
            cls._local.stack = []
        return cls._local.stack

    @classmethod
    def current(cls) -> PassContext:
        """The innermost context of this thread, or a default one."""
        stack = cls._stack()
        return stack[-1] if stack else PassContext()

    def __enter__(self) -> PassContext:
        for instrument in self.instruments:
            instrument.enter_pass_ctx()
        self._stack().append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack().pop()
        for instrument in self.instruments:
            instrument.exit_pass_ctx()

    def enables(self, info: PassInfo) -> bool:
        """True when a pass of that name and level runs in this context."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level


class Pass:
    """A function from module to module with a name; calling it runs it under the current context."""

    def __init__(self, info: PassInfo):
        self.info = info

    def __call__(self, mod: IRModule) -> IRModule:
        ctx = PassContext.current()
        if not all(i.should_run(mod, self.info) for i in ctx.instruments):
            return mod
        for instrument in ctx.instruments:
            instrument.run_before_pass(mod, self.info)
        with paused_collector():
            result = self.transform_module(mod, ctx)
        for instrument in ctx.instruments:
            instrument.run_after_pass(result, self.info)
        return result

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The pass itself; *mod* is not changed."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"Pass({self.info.name})"


class ModulePass(Pass):
    """A pass over a whole module."""

    def __init__(self, function: Callable[[IRModule, PassContext], IRModule], info: PassInfo):
        super().__init__(info)
        self._function = function

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        result = self._function(mod, ctx)
        if not isinstance(result, IRModule):
            raise UserError(f"the module pass {self.info.name} must return an IRModule, got {type(result).__name__}")
        return result


class Sequential(Pass):
    """Passes one after another; those above the context's level or disabled in it are left out."""

    def __init__(self, passes: Sequence[Pass], opt_level: int = 0, name: str = "sequential"):
        super().__init__(PassInfo(name, opt_level))
        self.passes = tuple(passes)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        for step in self.passes:
            if ctx.enables(step.info):
                mod = step(mod)
        return mod


def class_pass(pass_class: type, base: type[Pass], method: str, info: PassInfo) -> type[Pass]:
    """*pass_class*, a class with *method*, as a class of passes: its instances run that method.

    What an instance has otherwise can be asked of the pass. Source: TVM's ``_wrap_class_function_pass``.
    """

    def __init__(self: Pass, *args: object, **options: object) -> None:  # noqa: N807 - the method of the class below
        self._instance = pass_class(*args, **options)  # type: ignore[attr-defined]
        base.__init__(self, getattr(self._instance, method), info)  # type: ignore[attr-defined, call-arg]

    def __getattr__(self: Pass, name: str) -> object:  # noqa: N807
        if name == "_instance":
            raise AttributeError(name)
        return getattr(self._instance, name)  # type: ignore[attr-defined]

    body = {"__init__": __init__, "__getattr__": __getattr__, "__doc__": pass_class.__doc__}
    return type(pass_class.__name__, (base,), {**body, "__module__": pass_class.__module__})


def module_pass(
    pass_func: Callable[[IRModule, PassContext], IRModule] | type | None = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] = (),
) -> ModulePass | type[Pass] | Callable[..., ModulePass | type[Pass]]:
    """Make a pass from ``f(mod, ctx) -> mod``, or a class of passes from a class with ``transform_module``.

    As a call or as a decorator. Source: ``tvm.transform.module_pass``.
    """

    def make(function: Callable[[IRModule, PassContext], IRModule] | type) -> ModulePass | type[Pass]:
        info = PassInfo(name or function.__name__, opt_level, tuple(required))
        if isinstance(function, type):
            return class_pass(function, ModulePass, "transform_module", info)
        return ModulePass(function, info)

    return make(pass_func) if pass_func is not None else make
