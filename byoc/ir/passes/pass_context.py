"""What passes run under: levels, passes forced and disabled, options, instruments. Source: ``tvm.transform``."""

from __future__ import annotations

import logging
import numbers
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import NAMES_OF_PASSES, PassInfo, listed
from byoc.ir.passes.verification import VERIFY
from byoc.ir.registry import GLOBAL_FUNCTIONS, DeferredRegistry

if TYPE_CHECKING:
    from byoc.ir.passes.instrument import PassInstrument

_LOG = logging.getLogger(__name__)

CONFIG_OPTIONS: DeferredRegistry[type] = DeferredRegistry("pass config option")
_TYPE_KEYS = {bool: "IntImm", int: "IntImm", float: "FloatImm", str: "runtime.String", list: "Array", dict: "Map"}
# the declared type of an option -> the classes of values that convert to it: a number stands for a bool, as in Relay
_CONVERTIBLE: dict[type, tuple[type, ...]] = {
    bool: (numbers.Integral,),
    int: (numbers.Integral,),
    float: (numbers.Real,),
    list: (list, tuple),
    dict: (Mapping,),
}


def register_config_option(name: str, kind: type) -> None:
    """Declare a key of ``PassContext(config=…)`` and the type of its value."""
    CONFIG_OPTIONS.register(name, kind)


register_config_option("testing.immutable_module", bool)
register_config_option(VERIFY, bool)


def _check_option(key: str, value: object) -> None:
    """Raises AttributeError for an option that is not known, and for a value that does not convert to its type."""
    if key not in CONFIG_OPTIONS and not _is_of_generator(key):
        known = ", ".join(sorted(CONFIG_OPTIONS)) or "none"
        raise AttributeError(f"Invalid config option '{key}'; known options: {known}")
    kind = CONFIG_OPTIONS[key] if key in CONFIG_OPTIONS else dict
    if not isinstance(value, _CONVERTIBLE.get(kind, (kind,))):
        wanted = f"{_TYPE_KEYS.get(kind, 'Object')} ({kind.__name__})"
        raise AttributeError(f"expect config {key} to have type {wanted}, but got {type(value).__name__}: {value!r}")


def _is_of_generator(key: str) -> bool:
    """Whether *key* is ``relay.ext.<name>.options`` of a code generator that is registered: a vendor's own options."""
    name, _, last = key.rpartition(".")
    return last == "options" and name.startswith("relay.ext.") and name in GLOBAL_FUNCTIONS


class PassContext:
    """What passes run under: the optimisation level, forced and disabled passes, options, and instruments.

    Used as ``with PassContext(opt_level=3): …``. Raises AttributeError for an unknown config key and for a value that
    does not convert to its key's type, as Relay does, and PassTypeError for passes and instruments that are not listed.
    Leaving it raises UserError for names in ``disabled_pass`` and ``required_pass`` that no pass has.
    """

    _local = threading.local()

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[PassInstrument] | None = None,
        config: Mapping[str, object] | None = None,
        trace: object | None = None,
        trace_stack: Sequence[object] | None = None,
        make_traceable: Sequence[str] | None = None,
        num_evals: int = 0,
        tuning_api_database: object | None = None,
    ):
        for key, value in (config or {}).items():
            _check_option(key, value)
        self.opt_level = opt_level
        self.required_pass = listed(required_pass, "required_pass")
        self.disabled_pass = listed(disabled_pass, "disabled_pass")
        self.instruments: tuple[PassInstrument, ...] = listed(instruments, "instruments")
        self.config = dict(config or {})
        self.trace, self.trace_stack = trace, list(trace_stack or [])
        self.make_traceable, self.num_evals = listed(make_traceable, "make_traceable"), num_evals
        self.tuning_api_database = tuning_api_database

    @classmethod
    def _stack(cls) -> list[PassContext]:
        if not hasattr(cls._local, "stack"):
            cls._local.stack = [PassContext()]
        result: list[PassContext] = cls._local.stack
        return result

    @classmethod
    def current(cls) -> PassContext:
        """The innermost context of this thread, or the thread's default one."""
        return cls._stack()[-1]

    def with_config(self, config: Mapping[str, object]) -> AbstractContextManager[object]:
        """This context with *config* beside its own, to be entered inside it; nothing is entered for no *config*."""
        if not config:
            return nullcontext()
        own = self.opt_level, self.required_pass, self.disabled_pass, self.instruments
        return PassContext(*own, {**self.config, **config})

    @staticmethod
    def list_configs() -> dict[str, dict[str, str]]:
        """The known options with the types of their values. Source: ``PassContext.list_configs``."""
        return {name: {"type": _TYPE_KEYS.get(CONFIG_OPTIONS[name], "Object")} for name in sorted(CONFIG_OPTIONS)}

    def __enter__(self) -> PassContext:
        self._stack().append(self)
        try:
            self._enter_instruments()
        except BaseException:
            self._stack().pop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack().pop()
        self._exit_instruments()
        if not any(exc):
            self.check_names()

    def check_names(self) -> None:
        """Raises UserError, with the nearest names, where a pass is named that there is not.

        Leaving the context asks: a pass of a user's may be made inside, so that before nobody knows its name.
        """
        for field in ("disabled_pass", "required_pass"):
            unknown = [name for name in getattr(self, field) if name not in NAMES_OF_PASSES]
            if unknown:
                from byoc.ir.passes.pass_names import check_names  # which few contexts need

                check_names(unknown, field)

    def override_instruments(self, instruments: Sequence[PassInstrument] | None) -> None:
        """Leave the instruments that are here and enter others. Source: ``PassContext.override_instruments``."""
        self._exit_instruments()
        self.instruments = listed(instruments, "instruments")
        self._enter_instruments()

    def _enter_instruments(self) -> None:
        """Notify each instrument; where one fails, those that were notified are left and none stays."""
        entered: list[PassInstrument] = []
        try:
            for instrument in self.instruments:
                instrument.enter_pass_ctx()
                entered.append(instrument)
        except BaseException:
            _LOG.warning("Pass instrumentation entering pass context failed. Disable pass instrumentation.")
            self.instruments = ()
            for instrument in entered:
                instrument.exit_pass_ctx()
            raise

    def _exit_instruments(self) -> None:
        try:
            for instrument in self.instruments:
                instrument.exit_pass_ctx()
        except BaseException:
            _LOG.warning("Pass instrumentation exiting pass context failed. Disable pass instrumentation.")
            self.instruments = ()
            raise

    @property
    def settings(self) -> Hashable:
        """What passes do by, instruments apart: level, required and disabled passes, and options."""
        return self.opt_level, self.required_pass, self.disabled_pass, repr(sorted(self.config.items()))

    def why_not(self, info: PassInfo) -> str | None:
        """Why a pass of that name and level does not run in this context; None where it does."""
        if info.name in self.disabled_pass:
            return "it is disabled"
        if info.name in self.required_pass or self.opt_level >= info.opt_level:
            return None
        return f"it runs from level {info.opt_level}, and the level is {self.opt_level}"

    def watched(self, mod: IRModule, info: PassInfo, transform: Callable[[], IRModule]) -> IRModule:
        """What *transform* makes of *mod* while instruments look on; *mod* itself where one of them says no.

        Every instrument is asked, except for passes that the context requires.
        """
        if info.name not in self.required_pass:
            answers = [bool(instrument.should_run(mod, info)) for instrument in self.instruments]
            if not all(answers):
                return mod
        for instrument in self.instruments:
            instrument.run_before_pass(mod, info)
        result = transform()
        for instrument in self.instruments:
            instrument.run_after_pass(result, info)
        return result
