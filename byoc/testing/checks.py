"""What a case is put through: numbers, memory, repetition, threads, saving, determinism.

A check gives findings; none is good news. ``wrong`` is what computes something else or touches what is not its own,
``crashed`` what ended its process or came to no end, ``refused late`` what the verdict promised and compiling, running,
saving or loading then refuses, ``untried`` what could not be asked here, ``deviates`` what the backend says itself that
it computes otherwise. ``failed when asked`` is no case: a constraint or a check that raises, or a pattern that matches
nothing.
"""

from __future__ import annotations

import sys
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np

from byoc.base.progress import Progress, silent
from byoc.contract.backend import Backend
from byoc.driver.compiler.entry import compile as compile_model
from byoc.errors import CompilerNotFoundError, UserError
from byoc.ir.module import IRModule
from byoc.ir.types import tensor_types
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.library import Library
from byoc.runtime.region.fences import Fenced
from byoc.testing.core.case import CONSTANT, LARGE_INTEGERS, Arrays, Case
from byoc.testing.core.conditioning import allowed_scale, movements
from byoc.testing.core.difference import difference, is_float, tolerances
from byoc.testing.core.precision_bounds import added_tolerance
from byoc.testing.core.process_state import ProcessWatch
from byoc.testing.core.reference import outputs_of
from byoc.testing.core.region_library import region_library, region_symbol
from byoc.testing.core.saved import SavedRunner
from byoc.testing.other_constants import with_other_constants

WRONG, CRASHED, LATE, SLOW, UNTRIED = "wrong", "crashed", "refused late", "slow", "untried"
DEVIATES, FAILED = "deviates", "failed when asked"
VERDICT, PATTERN_MATCH = "verdict", "pattern"
COMPILE, RUN, NUMBERS, INPUTS = "compile", "run", "numbers", "inputs untouched"
OUTPUTS, REPEAT, SAVED = "outputs filled", "repeated runs", "saved and loaded"
PROCESS = "process untouched"
THREADS, DETERMINISM, FALLBACK, SPEED = "threads", "same bytes", "fallback", "speed"
EVERY_CASE = (NUMBERS, INPUTS, PROCESS, OUTPUTS, REPEAT, SAVED)
ONCE = (THREADS, DETERMINISM)  # for the first case of an operator, since they take longer
CHECKS = (*EVERY_CASE, *ONCE, FALLBACK)
POISONS = (0xFF, 0x5A)
MANIFEST_MEMBER = "manifest.json"
NO_FLOATS = (
    "; these integers are beyond 2**24, from where on float32 leaves some out (float64 beyond 2**53): compute in "
    "integers, or refuse the type"
)
TEAM, TURNS = 4, 6  # threads, and runs of each


@dataclass(frozen=True)
class Finding:
    """What a check found of a case: one of the verdicts above, and a sentence."""

    check: str
    verdict: str
    text: str


Outcome = TypeVar("Outcome")
Wanted = tuple[list[np.ndarray], list[np.ndarray]]  # by the kernels' own types, and in float64


@dataclass
class Examiner:
    """Puts cases of one backend through checks.

    *tolerance* is by dtype, *options* are the backend's, *precision* is asked of it. *saved* runs artefacts in another
    process; without it that is not asked. *progress* is called with each step before it is taken.
    """

    backend: Backend
    tolerance: Mapping[str, float] | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    saved: SavedRunner | None = None
    progress: Progress = silent
    precision: str = "f32"
    _added: float = field(default=0.0, init=False)  # to the tolerance of floats, for the case that is examined
    _watch: ProcessWatch = field(default_factory=ProcessWatch, init=False)  # of the process, for that case

    def compiled(self, case: Case, fallback: bool = False) -> Library:
        """*case* as a library. Raises what compiling raises, and UserError where a whole case gave no region."""
        name = self.backend.name
        with self._watch.during("compiling it"):
            if not case.whole:
                return region_library(case.function, name, self.options, fallback, self.precision)
            options = {name: dict(self.options)} if self.options else None
            targets = [name, "host"]
            mod = IRModule.from_expr(case.function)
            return compile_model(mod, targets, backend_options=options, fallback=fallback, precision=self.precision)

    def _run(self, run: Callable[..., Outcome], *given: object) -> Outcome:
        with self._watch.during("a run"):
            return run(*given)

    def examine(self, case: Case, checks: Sequence[str] = EVERY_CASE) -> list[Finding]:
        """What *checks* find of *case*; empty where everything is as it should be."""
        self._watch = ProcessWatch()
        found = self._examined(case, checks)
        if PROCESS in checks and self._watch.text:
            found = [*found, Finding(PROCESS, WRONG, self._watch.text)]
        return found

    def _examined(self, case: Case, checks: Sequence[str]) -> list[Finding]:
        """All of it but for what the process shows."""
        self.progress(NUMBERS)
        self._added = added_tolerance(case.function, self.precision)
        try:
            wanted = [self.wanted(case, feed) for feed in case.feeds]
        except Exception as error:  # kernels raise what they please
            return [Finding(NUMBERS, UNTRIED, f"the reference does not compute it: {error}")]
        self.progress(COMPILE)
        try:
            library = self.compiled(case)
        except CompilerNotFoundError as error:
            return [Finding(COMPILE, UNTRIED, str(error))]
        except Exception as error:  # whatever a vendor's code raises
            return [Finding(COMPILE, LATE, _error_text(error))]
        found, deviates = self._runs(case, library, wanted, checks)
        if found:
            unset = (
                self._unset(case, library, wanted[0][0]) if OUTPUTS in checks and found[0].check == NUMBERS else None
            )
            return [Finding(OUTPUTS, WRONG, unset)] if unset is not None else found
        steps: list[tuple[str, str, Callable[[], list[Finding]]]] = [
            (OUTPUTS, "a run", lambda: self._outputs(case, library, wanted)),
            (SAVED, "saving it", lambda: self._saved(case, library, wanted)),
            (THREADS, "a run", lambda: _threads(case, library)),
            (DETERMINISM, "saving it", lambda: self._same_bytes(case, library)),
        ]
        found = list(deviates)
        for name, doing, step in steps:
            if name in checks:
                self.progress(name)
                with self._watch.during(doing):
                    found += step()
        return found

    def wanted(self, case: Case, feed: Arrays) -> Wanted:
        """What the reference gives, in the types of the case and in float64."""
        return outputs_of(case.function, feed, False), outputs_of(case.function, feed, True)

    def wrong(
        self, got: Sequence[np.ndarray], wanted: Wanted, moves: Callable[[], Sequence[float]] | None = None
    ) -> str | None:
        """What is wrong with *got*, in a sentence: it is right where it agrees with one of the references, where a
        declared deviation of the backend leaves it free, or where roundings of the inputs (*moves*) move it as far.
        """
        free = self._without_deviations(got, wanted)
        difference_text = self._unlike(free, wanted)
        return difference_text if difference_text is None or moves is None else self._unlike(free, wanted, moves())

    def moves(self, case: Case, feed: Arrays, wanted: Wanted) -> Callable[[], Sequence[float]]:
        """How far roundings of the inputs move each output of *case*, when it is asked."""
        return lambda: movements(case.function, feed, wanted[1])

    def deviation(self, got: Sequence[np.ndarray], wanted: Wanted) -> str | None:
        """In which declared deviation of the backend *got* differs from the references, in a sentence."""
        difference_text = self._unlike(got, wanted) if self.backend.deviations else None
        if difference_text is None or self._unlike(self._without_deviations(got, wanted), wanted) is not None:
            return None
        codes = [d.code for d in self.backend.deviations if any(d.free(w).any() for w in wanted[0])]
        return f"{', '.join(codes)}: {difference_text}"

    def _without_deviations(self, got: Sequence[np.ndarray], wanted: Wanted) -> Sequence[np.ndarray]:
        """*got* with the reference's numbers where a deviation leaves them free."""
        if not self.backend.deviations or len(got) != len(wanted[0]):
            return got
        found = []
        for value, want in zip(got, wanted[0], strict=True):
            if value.shape == want.shape and value.dtype == want.dtype:
                for deviation in self.backend.deviations:
                    value = np.where(deviation.free(want), want, value)
            found.append(value)
        return found

    def _unlike(self, got: Sequence[np.ndarray], wanted: Wanted, moves: Sequence[float] = ()) -> str | None:
        allowed = tolerances(self.tolerance)
        own, wide = wanted
        if len(got) != len(own):
            return f"{len(got)} outputs, expected {len(own)}"
        for k, (value, by_kernel, exact) in enumerate(zip(got, own, wide, strict=True)):
            scale = allowed.get(str(by_kernel.dtype), 0.0) + (self._added if is_float(by_kernel.dtype) else 0.0)
            scale = allowed_scale(scale, moves[k], exact) if moves else scale
            difference_text = difference(value, by_kernel, scale)
            if difference_text is not None and difference(value, exact, scale) is not None:
                return difference_text if len(own) == 1 else f"output {k}: {difference_text}"
        return None

    def _runs(
        self, case: Case, library: Library, wanted: Sequence[Wanted], checks: Sequence[str]
    ) -> tuple[list[Finding], list[Finding]]:
        """What is found of runs, and the deviations that are seen."""
        first: list[list[np.ndarray]] = []
        self.progress(RUN)
        deviates: list[Finding] = []
        for k in range(len(case.feeds)):
            given = {name: np.array(a) for name, a in case.inputs(k).items()}
            try:
                got = self._run(library.run, given)
            except Exception as error:  # whatever a vendor's code raises
                return [Finding(RUN, LATE, _error_text(error))], []
            if INPUTS in checks:
                changed = [name for name, a in case.inputs(k).items() if not same_bytes(given[name], a)]
                if changed:
                    return [Finding(INPUTS, WRONG, f"a run changed the caller's array of input {changed[0]!r}")], []
            problem = self.wrong(got, wanted[k], self.moves(case, case.feeds[k], wanted[k]))
            if problem is not None and NUMBERS in checks:
                return [Finding(NUMBERS, WRONG, problem + (NO_FLOATS if case.kind == LARGE_INTEGERS else ""))], []
            seen = self.deviation(got, wanted[k])
            if seen is not None and not deviates:
                deviates.append(Finding(NUMBERS, DEVIATES, seen))
            first.append(got)
        if REPEAT in checks:
            self.progress(REPEAT)
            for k in (*range(len(case.feeds)), 0):
                try:
                    again = self._run(library.run, case.inputs(k))
                except Exception as error:  # whatever a vendor's code raises
                    return [Finding(REPEAT, WRONG, f"another run fails: {_error_text(error)}")], []
                other = _unequal(again, first[k])
                if other is not None:
                    problem = f"another run on the same inputs gives other numbers: {other}"
                    return [Finding(REPEAT, WRONG, problem)], []
            other = self._beside(case, library, first[0])
            if other is not None:
                problem = f"behind a run of another region, with other constants, it gives other numbers: {other}"
                return [Finding(REPEAT, WRONG, problem)], []
        return [], deviates

    def _beside(self, case: Case, library: Library, first: Sequence[np.ndarray]) -> str | None:
        """What differs when *library* runs again behind a region that has other constants; None where nothing does."""
        beside = with_other_constants(case) if case.kind == CONSTANT else None
        if beside is None:
            return None
        try:
            self._run(self.compiled(beside).run, beside.inputs(0))
        except Exception:  # of a vendor who takes these constants alone
            return None
        return _unequal(self._run(library.run, case.inputs(0)), first)

    def _outputs(self, case: Case, library: Library, wanted: Sequence[Wanted]) -> list[Finding]:
        """The region's function on poisoned outputs between guards, and on inputs that are read-only."""
        types = tensor_types(case.function.body.checked_type)
        own = wanted[0][0]
        if case.whole or any(not t.is_symbolic or t.dtype == "string" for t in types):
            return []
        function = library.module[region_symbol(self.backend.name)]
        for poison in POISONS:
            zones = [_Poisoned(a, poison) for a in own]
            inputs = [np.array(a) for a in case.feeds[0]]
            for array in inputs:
                array.flags.writeable = poison == POISONS[0]
            try:
                self._run(function, *map(NDArray, inputs), *(NDArray(z.array) for z in zones))
            except Exception as error:  # whatever a vendor's code raises
                if poison != POISONS[0]:
                    return [Finding(INPUTS, WRONG, f"it does not take inputs that are read-only: {_error_text(error)}")]
                return [Finding(RUN, LATE, f"its function called with arrays of its own: {_error_text(error)}")]
            if any(not same_bytes(a, b) for a, b in zip(inputs, case.feeds[0], strict=True)):
                return [Finding(INPUTS, WRONG, "its function writes into its inputs")]
            for k, zone in enumerate(zones):
                where = zone.broken()
                if where is not None:
                    return [Finding(OUTPUTS, WRONG, f"output {k}: it writes outside of the array, {where}")]
            problem = self.wrong([z.array for z in zones], wanted[0], self.moves(case, case.feeds[0], wanted[0]))
            if problem is not None:
                unset = self._unset(case, library, own)
                return [Finding(OUTPUTS, WRONG, unset or f"on memory that was not zero before: {problem}")]
        return []

    def _unset(self, case: Case, library: Library, own: Sequence[np.ndarray]) -> str | None:
        """Which elements of its outputs the region's function leaves as they were, in a sentence; None where none."""
        if case.whole or any(
            not t.is_symbolic or t.dtype == "string" for t in tensor_types(case.function.body.checked_type)
        ):
            return None
        function = library.module[region_symbol(self.backend.name)]
        kept = [np.ones(a.shape, bool) for a in own]
        for poison in POISONS:
            zones = [_Poisoned(a, poison) for a in own]
            try:
                given = [*map(np.array, case.feeds[0]), *(z.array for z in zones)]
                self._run(function, *map(NDArray, given))
            except Exception:  # it is wrong already, and that is reported
                return None
            kept = [mask & zone.unset for mask, zone in zip(kept, zones, strict=True)]
        for k, mask in enumerate(kept):
            if mask.any():
                many = f"{int(mask.sum())} of {mask.size} elements of its output {k}"
                return f"it leaves {many} unset: byoc.runtime.fill_outputs(outputs, results) fills them"
        return None

    def _saved(self, case: Case, library: Library, wanted: Sequence[Wanted]) -> list[Finding]:
        if self.saved is None:
            return []
        try:
            found = self.saved.run(library, [case.inputs(k) for k in range(len(case.feeds))])
        except Exception as error:  # whatever a vendor's code raises
            return [Finding(SAVED, LATE, _error_text(error))]
        for got, want, feed in zip(found, wanted, case.feeds, strict=True):
            problem = self.wrong(got, want, self.moves(case, feed, want))
            if problem is not None:
                return [Finding(SAVED, WRONG, f"loaded in another process: {problem}")]
        return []

    def _same_bytes(self, case: Case, library: Library) -> list[Finding]:
        with TemporaryDirectory(prefix="byoc_bytes_") as folder:
            try:
                first = library.save(Path(folder) / "first.byoc")
                second = self.compiled(case).save(Path(folder) / "second.byoc")
            except UserError as error:
                return [Finding(SAVED, LATE, _error_text(error))]
            if first.read_bytes() == second.read_bytes():
                return []
            return [Finding(DETERMINISM, WRONG, f"compiled twice, {_other_member(first, second)} differs")]


class _Poisoned(Fenced):
    """An output between fences, filled with the byte *poison*."""

    def __init__(self, like: np.ndarray, poison: int):
        super().__init__(like)
        self.raise_fences()
        self.bytes[...] = self._poison = poison

    @property
    def unset(self) -> np.ndarray:
        """Where an element has the poison in all its bytes."""
        written = self.bytes.reshape(*self.array.shape, self.array.itemsize)
        return np.asarray((written == self._poison).all(-1))


def _threads(case: Case, library: Library) -> list[Finding]:
    """Several threads, each with the settings in turn, against each setting alone."""
    alone = [library.run(case.inputs(k)) for k in range(len(case.feeds))]
    problems: list[str] = []

    def work(number: int) -> None:
        for turn in range(TURNS):
            k = (number + turn) % len(case.feeds)
            try:
                problem = _unequal(library.run(case.inputs(k)), alone[k])
            except Exception as error:  # whatever a vendor's code raises
                problem = _error_text(error)
            if problem is not None:
                problems.append(problem)
                return

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        team = [threading.Thread(target=work, args=(number,)) for number in range(TEAM)]
        for thread in team:
            thread.start()
        for thread in team:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    return [Finding(THREADS, WRONG, f"{TEAM} threads at once: {problems[0]}")] if problems else []


def _unequal(got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> str | None:
    """Which output has other bytes; None where none has."""
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        if not same_bytes(a, b):
            return difference(a, b, 0.0) or f"output {k} has other bytes"
    return None


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are one and the same to the last bit."""
    if a.dtype.hasobject:
        return bool(a.shape == b.shape and (a == b).all())
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def _other_member(first: Path, second: Path) -> str:
    with zipfile.ZipFile(first) as a, zipfile.ZipFile(second) as b:
        names = sorted({*a.namelist(), *b.namelist()})
        others = [n for n in names if n not in a.namelist() or n not in b.namelist() or a.read(n) != b.read(n)]
    others = [n for n in others if n != MANIFEST_MEMBER] or others  # which has a check value of each other
    return f"the member {others[0]}" if others else "the file"


def _error_text(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"
