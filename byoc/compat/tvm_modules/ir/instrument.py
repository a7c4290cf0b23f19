"""Instruments of passes by TVM's decorator. Source: ``tvm.ir.instrument``."""

from __future__ import annotations

from collections.abc import Callable

from byoc.errors import UserError
from byoc.ir.transform import PassInstrument, PassTimingInstrument

_HOOKS = ("enter_pass_ctx", "exit_pass_ctx", "run_after_pass", "run_before_pass", "should_run")


def pass_instrument(pi_cls: type | None = None) -> type | Callable[[type], type]:
    """Make an instrument of a class with some of the hooks, as a decorator. Raises UserError for what is no class.

    Source: ``tvm.ir.instrument.pass_instrument``.
    """
    if pi_cls is None:
        return pass_instrument  # type: ignore[return-value]
    if not isinstance(pi_cls, type):
        raise UserError(f"pass_instrument takes a class, got {type(pi_cls).__name__}")
    if not any(hasattr(pi_cls, hook) for hook in _HOOKS):
        raise UserError(f"{pi_cls.__name__} has no method of an instrument: {', '.join(_HOOKS)}")
    return type(pi_cls.__name__, (pi_cls, PassInstrument), {"__module__": pi_cls.__module__, "__doc__": pi_cls.__doc__})


class PrintBeforeAll(PassInstrument):
    """Prints the module before each pass. Source: ``tvm.ir.instrument.PrintBeforeAll``."""

    def run_before_pass(self, mod: object, info: object) -> None:
        print("Before running pass:", info)
        print(mod)


class PrintAfterAll(PassInstrument):
    """Prints the module after each pass. Source: ``tvm.ir.instrument.PrintAfterAll``."""

    def run_after_pass(self, mod: object, info: object) -> None:
        print("After running pass:", info)
        print(mod)


__all__ = ["PassInstrument", "PassTimingInstrument", "PrintAfterAll", "PrintBeforeAll", "pass_instrument"]
