"""What becomes of each case of ONNX's suite on a device, counted by operator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from byoc.base.progress import Progress, silent
from byoc.codegen.opencl.backend import LEAST_ELEMENTS
from byoc.errors import UserError
from byoc.ir.passes.pass_context import PassContext
from byoc.onnx_backend.backend import TARGETS, ModelRefusedError, PreparedModel, prepare_for
from byoc.onnx_backend.cases import OTHER_NUMBERS, SuiteCase, difference
from byoc.onnx_backend.coverage import PLACES, Coverage, coverage

PASSED, CONSTANTS, TOLERATED, REFUSED, WRONG = KINDS = ("passed", "as constants", "tolerated", "refused", "wrong")
SUPPORTED = (PASSED, CONSTANTS, TOLERATED)
# beside a device: kernels for the smallest integers too, and little time for the host's compiler
BESIDE = {"backend_options": {"c": {"flags": ["-O1"]}}}
EVERY_SIZE = {LEAST_ELEMENTS: 1}
RANDOM = "the numbers are random, and the test has those of one generator"
# cases whose difference is known and harmless, with the reason
HARMLESS: Mapping[str, str] = {
    "test_attention_4d_causal_fp16": "two of 192 elements are off by one float16 rounding step",
    "test_attention_4d_causal_fp16_expanded": "two of 192 elements are off by one float16 rounding step",
    **{f"test_bernoulli{kind}{form}": RANDOM for kind in ("", "_double", "_seed") for form in ("", "_expanded")},
    **{f"test_training_dropout{kind}": RANDOM for kind in ("", "_default", "_mask", "_default_mask")},
}


@dataclass(frozen=True)
class Outcome:
    """What became of a case: *kind* is one of ``KINDS``, *reason* what was refused or differed.

    ``as constants``: it passes with its short lists of numbers (axes, sizes, k) as constants, and is refused with
    them as inputs. *coverage* says what of it generated code computed, where it passes and was compiled.
    """

    case: str
    operator: str
    kind: str
    reason: str = ""
    coverage: Coverage | None = None


@dataclass(frozen=True)
class Bar:
    """How many of the passing cases, whose operators the device all generates in some form, it computes by itself.

    *cases* are these cases, *kernels* those of them with nothing on numpy kernels, and *device* those that also have
    nothing on the host beside a device.
    """

    cases: int
    kernels: int
    device: int


@dataclass(frozen=True)
class Survey:
    """The outcomes of a run of the suite on *device*."""

    device: str
    outcomes: Sequence[Outcome]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not any(o.kind == WRONG for o in self.outcomes)

    def whole(self, outcome: Outcome) -> bool:
        """Whether *outcome* passes, with generated code alone, and beside a device with nothing on the host."""
        return outcome.kind == PASSED and (outcome.coverage is None or outcome.coverage.whole)

    def counts(self) -> dict[str, int]:
        """How many cases are of each kind."""
        found = Counter(o.kind for o in self.outcomes)
        return {kind: found[kind] for kind in KINDS}

    def by_operator(self) -> dict[str, list[Outcome]]:
        """The outcomes of each operator, by name."""
        found: dict[str, list[Outcome]] = {}
        for outcome in sorted(self.outcomes, key=lambda o: (o.operator, o.case)):
            found.setdefault(outcome.operator, []).append(outcome)
        return found

    def places(self) -> dict[str, int]:
        """Of the cases that pass, how many ran wholly on the device, in parts, on the host."""
        found = Counter(c.where for _, c in self.covered())
        return {place: found[place] for place in PLACES}

    def covered(self) -> list[tuple[Outcome, Coverage]]:
        """The outcomes that pass of what was compiled, with what generated code computed of each."""
        return [(o, o.coverage) for o in self.outcomes if o.coverage is not None]

    def bar(self) -> Bar:
        """How much of what the device generates ran as generated code."""
        found = [c for _, c in self.covered() if c.generated]
        return Bar(
            len(found),
            sum(not c.kernels for c in found),
            sum(c.whole for c in found),
        )

    def to_json(self) -> dict[str, object]:
        """Counts and outcomes, as data."""
        return {
            "device": self.device,
            "counts": self.counts(),
            "generated code": asdict(self.bar()),
            **({"places": self.places()} if self.device == "OPENCL" else {}),
            "cases": [asdict(o) for o in self.outcomes],
        }


def survey(cases: Iterable[SuiteCase], device: str, progress: Progress = silent) -> Survey:
    """Run every one of *cases* on *device*; *progress* is called with its name before it runs."""
    found = []
    for case in cases:
        progress(case.name)
        found.append(outcome(case, device))
    return Survey(device, found)


@contextmanager
def _options_of(device: str) -> Iterator[Mapping[str, object]]:
    """Options of ``byoc.compile`` for the suite's models, whose tensors are small, inside of their PassContext."""
    if device == "OPENCL":
        with PassContext(config=EVERY_SIZE):
            yield BESIDE
    else:
        yield {}


def outcome(case: SuiteCase, device: str) -> Outcome:
    """What becomes of *case* on *device*. An exception that is not byoc's own, or in a run, is wrong, not a refusal."""

    def of(kind: str, reason: str = "", covered: Coverage | None = None) -> Outcome:
        return Outcome(case.name, case.operator, kind, reason, covered)

    covered = None
    try:
        for given, wanted in case.data:
            with _options_of(device) as options:
                prepared, rest = prepare_for(case.model, given, device, **options)
            try:
                found = prepared.run(rest)
            except UserError as error:  # too late for a refusal: a kernel that the driver does not take, say
                return of(WRONG, f"{type(error).__name__}: {error}".splitlines()[0])
            problem = _problem(found, wanted, case)
            covered = _coverage(prepared, device)
            if problem and (case.name not in HARMLESS or problem != OTHER_NUMBERS):
                return of(WRONG, problem)
            if covered is not None and covered.idle:
                return of(WRONG, f"no kernel was launched of {', '.join(covered.idle)}")
            if problem:  # of the shape and the type that are wanted
                return of(TOLERATED, HARMLESS[case.name], covered)
            if len(rest) != len(given):
                return of(CONSTANTS, covered=covered)
    except UserError as error:
        return of(REFUSED, reason_of(error))
    except Exception as error:  # any other is a defect, which the table shall show and not end at
        return of(WRONG, f"{type(error).__name__}: {error}".splitlines()[0])
    return of(PASSED, covered=covered)


def _problem(found: Sequence[object], wanted: Sequence[object], case: SuiteCase) -> str:
    if len(found) != len(wanted):
        return f"{len(found)} outputs instead of {len(wanted)}"
    pairs = zip(found, wanted, strict=True)
    return next((d for f, w in pairs if (d := difference(f, w, case.rtol, case.atol))), "")


def _coverage(prepared: PreparedModel, device: str) -> Coverage | None:
    """What generated code computed; None of what was not compiled."""
    return None if prepared.library is None else coverage(prepared.model, prepared.library, TARGETS[device])


def reason_of(error: UserError) -> str:
    """The kind of a refusal: an operator, an element type, or the sentence without names of values and models."""
    text = str(error)
    text = text.split(": ", 1)[1] if text.startswith("<ModelProto>: ") else text
    listed = text.removeprefix("operators that are not supported: ")
    if listed != text:
        return f"no {listed.split(' at node', 1)[0]}"
    element = re.search(r"has the element type (\w+)", text)
    if element:
        return f"element type {element[1]}"
    return re.sub(r"^(node .*?\): |input '.*?' )", "", text).split(", got", 1)[0].split("; ", 1)[0]


__all__ = ["KINDS", "Bar", "ModelRefusedError", "Outcome", "Survey", "outcome", "reason_of", "survey"]
