"""The pass manager: passes as values, sequences of them, and how they are made from functions and classes.

A pass is a function from a module to a module. Source: ``tvm.transform``.
"""

from __future__ import annotations

import functools
import logging
import re
import sys
from collections.abc import Callable, Sequence

from byoc.errors import InternalError, UserError
from byoc.ir.collector import paused_collector
from byoc.ir.diagnostics import is_rendered, rendered
from byoc.ir.module import IRModule
from byoc.ir.passes.instrument import PassInstrument, PassTimingInstrument
from byoc.ir.passes.pass_context import CONFIG_OPTIONS, PassContext, register_config_option
from byoc.ir.passes.pass_info import KnownForms, Law, PassInfo, PassTypeError
from byoc.ir.passes.verification import is_verifying, verified
from byoc.ir.registry import get_global_func

_LOG = logging.getLogger("byoc.passes")
ModuleTransform = Callable[[IRModule, PassContext], IRModule]


class Pass:
    """A function from module to module with a name; calling it runs it under the current context."""

    is_one = True  # False for passes that are nothing but others, one after another

    def __init__(self, info: PassInfo):
        self.pass_info = info

    @property
    def info(self) -> PassInfo:
        """The name of the pass, its level, and what it requires."""
        return self.pass_info

    @property
    def law(self) -> Law | None:
        """The equality of functions on which the pass rests; None where it states none."""
        return self.info.law

    def __call__(self, mod: IRModule) -> IRModule:
        ctx = PassContext.current()
        if is_rendered():  # another pass runs this one, and pauses the collector
            return self._watched(mod, ctx)
        with paused_collector(), rendered(mod):
            return self._watched(mod, ctx)

    def _watched(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The pass under the context's instruments and the verifier."""

        def run() -> IRModule:
            if self.is_one and is_verifying(ctx.config):
                return verified(mod, self.info, lambda: self._transformed(mod, ctx))
            return self._transformed(mod, ctx)

        return ctx.watched(mod, self.info, run) if ctx.instruments else run()

    def _transformed(self, mod: IRModule, ctx: PassContext) -> IRModule:
        if not ctx.config.get("testing.immutable_module"):
            return self.transform_module(mod, ctx)
        structure = get_global_func("relay.ir.structural_hash")
        before = structure(mod)
        result = self.transform_module(mod, ctx)
        if structure(mod) != before:
            raise InternalError(f"Immutable module has been modified in pass: {self.info.name}")
        return result

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The pass itself; *mod* is not changed."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"Run {type(self).__name__}: {self.info.name} at the optimization level {self.info.opt_level}"


class ModulePass(Pass):
    """A pass over a whole module."""

    def __init__(self, function: ModuleTransform, info: PassInfo):
        super().__init__(info)
        self._function = function

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        result = self._function(mod, ctx)
        if not isinstance(result, IRModule):
            raise UserError(f"the module pass {self.info.name} must return an IRModule, got {type(result).__name__}")
        return result


class Sequential(Pass):
    """Passes one after another; those above the context's level or disabled in it are left out.

    What a pass requires runs before it. Raises PassTypeError for what is no list of passes and, when it runs,
    PassOrderError for a pass after one that ends a form which it needs. The log ``byoc.passes`` records what is left
    out.
    """

    is_one = False

    def __init__(
        self,
        passes: Sequence[Pass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ):
        if passes is not None and not isinstance(passes, (list, tuple)):
            raise PassTypeError("passes must be a list of Pass objects.")
        if required is not None and not isinstance(required, (list, tuple)):
            raise PassTypeError("Required is expected to be the type of list/tuple.")
        super().__init__(PassInfo(name, opt_level, tuple(required or ()), traceable))
        self.passes = tuple(passes or ())
        for step in self.passes:
            if not callable(step) or not hasattr(step, "info"):
                raise PassTypeError(f"passes must be a list of Pass objects, got a {type(step).__name__} in it")

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        known = KnownForms()
        for step in self.passes:
            info: PassInfo = step.info
            reason = ctx.why_not(info)
            if reason is not None:
                _LOG.info("%s: %s is left out: %s", self.info.name, info.name, reason)
                continue
            for name in info.required:
                mod = _run_in(known, pass_named(name), mod)
            mod = _run_in(known, step, mod)
        return mod


def _run_in(known: KnownForms, step: Pass, mod: IRModule) -> IRModule:
    """*mod* after *step*, which is recorded in *known*."""
    info = step.info
    known.check(info.name, info.needs)
    result = step(mod)
    known.after(info.name, info.gives, info.ends)
    return result


def pass_named(name: str) -> Pass:
    """The pass that ``relay._transform.<name>`` makes, with its defaults.

    Raises RegistryError with the nearest names where there is none. Source: ``GetPass``.
    """
    key = name if "transform." in name else f"relay._transform.{name}"
    made: Pass = get_global_func(key)()
    return made


def wrapped_class(root: type[Pass], pass_cls: type, method: str, info: PassInfo) -> type[Pass]:
    """The class of passes that make a *pass_cls* and call its *method*; other names are those of that object."""

    class ClassPass(root):  # type: ignore[misc, valid-type]
        def __init__(self, *args: object, **kwargs: object):
            self._inst = pass_cls(*args, **kwargs)
            super().__init__(getattr(self._inst, method), info)

        def __getattr__(self, name: str) -> object:
            if name == "_inst":
                raise AttributeError(name)
            return getattr(self._inst, name)

    functools.update_wrapper(ClassPass.__init__, pass_cls.__init__)  # type: ignore[misc]  # any signature
    ClassPass.__name__, ClassPass.__qualname__ = pass_cls.__name__, pass_cls.__qualname__
    ClassPass.__doc__, ClassPass.__module__ = pass_cls.__doc__, pass_cls.__module__
    return ClassPass


def pass_maker(
    root: type[Pass],
    method: str,
    pass_func: object,
    opt_level: int | None,
    name: str | None,
    required: Sequence[str] | None,
    traceable: bool,
) -> object:
    """The pass of a function, the class of passes of a class, or the decorator that makes one or the other."""
    if required is not None and not isinstance(required, (list, tuple)):
        raise PassTypeError("Required is expected to be the type of list/tuple.")

    def make(subject: object) -> object:
        title = name or str(getattr(subject, "__name__", type(subject).__name__))
        info = PassInfo(title, opt_level or 0, tuple(required or ()), traceable)
        if isinstance(subject, type):
            if not hasattr(subject, method):
                raise UserError(f"{subject.__name__} has no method {method}, which a pass of this kind is made of")
            return wrapped_class(root, subject, method, info)
        if not callable(subject):
            raise PassTypeError(f"pass_func must be a callable, got {type(subject).__name__}")
        return root(subject, info)  # type: ignore[call-arg, arg-type]

    return make(pass_func) if pass_func is not None else make


def module_pass(
    pass_func: object = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> object:
    """Make a pass from ``f(mod, ctx) -> mod`` or from a class with ``transform_module``, as a call or a decorator.

    Source: ``tvm.transform.module_pass``.
    """
    return pass_maker(ModulePass, "transform_module", pass_func, opt_level, name, required, traceable)


def PrintIR(header: str = "", show_metadata: bool = False) -> ModulePass:
    """The pass that writes the module to standard error and leaves it as it is. Source: ``tvm.transform.PrintIR``."""

    def show(mod: IRModule, ctx: PassContext) -> IRModule:
        print(f"PrintIR({header}):\n{mod.astext(show_metadata)}", file=sys.stderr)
        return mod

    return ModulePass(show, PassInfo("PrintIR"))


def ApplyPassToFunction(
    transform: Pass, func_name_regex: str, error_if_no_function_matches_regex: bool = False
) -> ModulePass:
    """The pass that runs *transform* over the functions whose whole name fits the expression.

    Raises UserError where none does and that is to be an error. Source: ``tvm.transform.ApplyPassToFunction``.
    """

    def apply(mod: IRModule, ctx: PassContext) -> IRModule:
        chosen = {var: func for var, func in mod.functions.items() if re.fullmatch(func_name_regex, var.name_hint)}
        if not chosen:
            if error_if_no_function_matches_regex:
                names = ", ".join(var.name_hint for var in mod.functions)
                raise UserError(f"No function matched regex {func_name_regex!r}, out of functions {names}")
            return mod
        subset = transform(IRModule(chosen, mod.type_definitions, mod.attrs))
        result = mod.shallow_copy()
        for var in chosen:
            if var not in subset:
                del result[var]
        result.update(subset)
        return result

    return ModulePass(apply, PassInfo("ApplyPassToFunction"))


__all__ = [
    "CONFIG_OPTIONS",
    "ApplyPassToFunction",
    "ModulePass",
    "Pass",
    "PassContext",
    "PassInfo",
    "PassInstrument",
    "PassTimingInstrument",
    "PrintIR",
    "Sequential",
    "module_pass",
    "pass_named",
    "register_config_option",
]
