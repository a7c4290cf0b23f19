"""Instruments: what looks on while passes run. Source: ``tvm.ir.instrument``.

An instrument is called when its context is entered and left, asked whether a pass is to run, and called before and
after each pass that does.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import time
from collections.abc import Callable, Sequence
from typing import overload

from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import PassInfo, PassTypeError


class PassInstrument:
    """The root of instruments: override the methods of interest."""

    @property
    def name(self) -> str:
        """What the instrument is called: its class."""
        return type(self).__name__

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


HOOKS = ("enter_pass_ctx", "exit_pass_ctx", "run_after_pass", "run_before_pass", "should_run")


@overload
def pass_instrument(pi_cls: None = None) -> Callable[[type], type]: ...
@overload
def pass_instrument(pi_cls: type) -> type: ...
def pass_instrument(pi_cls: type | None = None) -> type | Callable[[type], type]:
    """Make an instrument of a class with some of the hooks, as a decorator.

    Raises PassTypeError for what is no class, or has no hook. Source: ``tvm.ir.instrument.pass_instrument``.
    """
    if pi_cls is None:
        return pass_instrument
    if not isinstance(pi_cls, type):
        raise PassTypeError(f"pi_cls must be a class, got {type(pi_cls).__name__}")
    if not any(hasattr(pi_cls, hook) for hook in HOOKS):
        raise PassTypeError(f"{pi_cls.__name__} has no method of an instrument: {', '.join(HOOKS)}")
    return type(pi_cls.__name__, (pi_cls, PassInstrument), {"__module__": pi_cls.__module__, "__doc__": pi_cls.__doc__})


class PassTimingInstrument(PassInstrument):
    """Wall time of each pass, nested passes indented; forgotten when its context is left."""

    def __init__(self) -> None:
        self.profiles: list[tuple[str, int, float]] = []
        self._open: list[tuple[int, float]] = []

    def exit_pass_ctx(self) -> None:
        self.profiles, self._open = [], []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._open.append((len(self.profiles), time.perf_counter()))
        self.profiles.append((info.name, len(self._open) - 1, 0.0))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        index, start = self._open.pop()
        name, depth, _ = self.profiles[index]
        self.profiles[index] = (name, depth, time.perf_counter() - start)

    def render(self) -> str:
        """One line a pass: its name, its microseconds, those outside of passes inside it, its share of all and of the
        pass around it."""
        total = sum(seconds for _, depth, seconds in self.profiles if depth == 0) or 1.0
        lines: list[str] = []
        around: list[float] = []
        for index, (name, depth, seconds) in enumerate(self.profiles):
            del around[depth:]
            inner = self._seconds_inside(index)
            parent = (around[-1] if around else total) or 1.0
            lines.append(
                f"{chr(9) * depth}{name}: {seconds * 1e6:.0f}us [{(seconds - inner) * 1e6:.0f}us] "
                f"({seconds / total:.2%}; {seconds / parent:.2%})\n"
            )
            around.append(seconds)
        return "".join(lines)

    def _seconds_inside(self, index: int) -> float:
        depth, inside = self.profiles[index][1], 0.0
        for _, below, seconds in self.profiles[index + 1 :]:
            if below <= depth:
                break
            inside += seconds if below == depth + 1 else 0.0
        return inside


class PassPrintingInstrument(PassInstrument):
    """Prints the module before and after the passes of these names."""

    def __init__(self, print_before_pass_names: Sequence[str], print_after_pass_names: Sequence[str]):
        self.print_before_pass_names = print_before_pass_names
        self.print_after_pass_names = print_after_pass_names

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self.print_before_pass_names:
            print(f"Print IR before: {info.name}\n{mod}\n\n")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self.print_after_pass_names:
            print(f"Print IR after: {info.name}\n{mod}\n\n")


class PrintBeforeAll(PassInstrument):
    """Prints the module before each pass."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        print("Before Running Pass:", info)
        print(mod)


class PrintAfterAll(PassInstrument):
    """Prints the module after each pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        print("After Running Pass:", info)
        print(mod)


class DumpIR(PassInstrument):
    """Writes the module after each pass to a numbered file of *dump_dir*, which *refresh* empties first."""

    def __init__(self, dump_dir: str | pathlib.Path, refresh: bool = False):
        self.dump_dir = pathlib.Path(dump_dir)
        self.counter = 0
        if refresh and self.dump_dir.is_dir():
            for entry in sorted(self.dump_dir.iterdir()):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.dump_dir.mkdir(parents=True, exist_ok=True)
        name = re.sub(r'[<>:"/\\|?*]', "_", info.name)
        (self.dump_dir / f"{self.counter:03d}_{name}.py").write_text(str(mod), encoding="utf-8")
        self.counter += 1
