"""``byoc.bisect``: the first part of a compiled model whose numbers leave the reference, and the operator in it.

The model is cut as ``byoc.compile`` cuts it. Of several samples of the inputs, the first that shows a mistake is
reported. Each region, and each group of the host's share, is compiled alone and run on what the reference gives it, so
that the first that is wrong is wrong of itself; then each operator of it, and where each is right alone, the smallest
group of operators that is not. All of that is in a worker process: what crashes there, or comes to no end, has left the
reference too, and so has what writes to its inputs.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from byoc.base.progress import Progress, silent
from byoc.contract.registration import get_backend
from byoc.contract.signature import spec_of
from byoc.debug.bisection_result import Bisection, BisectionStep, worst
from byoc.debug.limits import ErrorLimits
from byoc.debug.onnx_runtime import model_outputs, part_outputs
from byoc.debug.options import INTERPRETER, ONNXRUNTIME, BisectRequest
from byoc.debug.parts import GROUP, CutModel, Part, cut_model, named_inputs, operator_parts, operators
from byoc.debug.workbench import LostError, Workbench, plan_request
from byoc.errors import CompileError, InputError, UnavailableError, UnsupportedError, UserError
from byoc.ir.span import span_names
from byoc.ir.types import TensorType
from byoc.options.entry import takes
from byoc.relay.expr import Function
from byoc.runtime.core.errors import ContractError
from byoc.testing.cases.operators import BackendAnswers
from byoc.testing.core.case import Case, read_case, write_case
from byoc.testing.core.difference import errors
from byoc.testing.core.inputs import seeded_inputs
from byoc.testing.core.reduction import reduce
from byoc.testing.core.reference import Values, flat, narrowed, outputs_of
from byoc.testing.core.shrink import cut, one_output
from byoc.testing.run_cases import shown

PARTS_NOTE = (
    "parts begin with what the interpreter gives them, so that what the importer or a pass did wrong is in none"
)
PART_SECONDS = 120.0  # of compiling a case, or running it
REDUCE_SECONDS = 60.0  # for the smallest group of operators


@takes(BisectRequest, "byoc.bisect")
def bisect(asked: BisectRequest) -> Bisection:
    """Find the first part of a compiled model whose numbers leave the reference, and the operator in it.

    Returns:
        What was found: ``str(found)``, ``found.ok``, ``found.operator``.

    Raises:
        UserError: the model cannot be compiled or run by the reference, or the reference is unknown.
    """
    names = [*asked.target_names, *([] if asked.reference in (INTERPRETER, ONNXRUNTIME) else [asked.reference])]
    with Workbench(names, asked, asked.part_seconds) as bench:
        return Runner(asked, ErrorLimits.of(asked.tolerance, asked.snr, asked.precision), bench).bisect()


@dataclass(frozen=True)
class _Found:
    part: BisectionStep
    operator: BisectionStep
    case: Case


class Runner:
    """Runs parts of the model that *asked* names on *bench*, and judges them by *limits*."""

    def __init__(self, asked: BisectRequest, limits: ErrorLimits, bench: Workbench):
        self.asked, self.limits, self.bench = asked, limits, bench
        self.targets = asked.target_names
        self._progress: Progress = asked.progress or silent
        self._notes: dict[str, None] = {}

    def bisect(self) -> Bisection:
        """See :func:`bisect`."""
        asked = self.asked
        self._progress("compiling the whole model")
        self._compile()
        self._progress("cutting the model")
        model = cut_model(plan_request(asked))
        samples = [self._inputs(model.main, k, given) for k, given in enumerate(asked.samples)]
        samples = samples or [self._inputs(model.main, 0, {})]
        right: list[Bisection] = []
        for number, arrays in enumerate(samples):
            self._notes.clear()
            found = replace(self._sample(model, arrays), sample=number, samples=len(samples))
            if not found.ok:
                return found
            right.append(found)
        return min(right, key=lambda f: f.whole.errors.snr_db if f.whole.errors else math.inf)

    def _compile(self) -> None:
        """Compile the model, as users do. Raises UserError where it does not compile, or that ends its process."""
        try:
            self.bench.compile_model()
        except LostError:
            try:
                self.bench.cut_model()
            except LostError as error:  # in what a backend is asked: there is no part to look at
                raise UserError(f"planning the model ends its process, {error}") from error

    def _sample(self, model: CutModel, arrays: dict[str, np.ndarray]) -> Bisection:
        """What is found on one setting of the inputs."""
        self._progress("running the reference")
        values = model.values(named_inputs(model.main, arrays))
        whole = self._whole(model.main, arrays, flat(narrowed(values[model.main.body], model.main.body.checked_type)))
        steps: list[BisectionStep] = []
        for place, part in enumerate(model.parts(values)):
            self._progress(f"{part.kind} {part.name}")
            step = self.judged(part, place)
            if step is None:
                continue
            steps.append(step)
            if not step.is_right:
                return self._result(whole, steps, self._operator(part, step))
        found = self._result(whole, steps, None)
        return found if whole.is_right else replace(found, disturbed=self._disturbed(model, arrays, values))

    def _disturbed(self, model: CutModel, arrays: dict[str, np.ndarray], values: Values) -> BisectionStep | None:
        """The first region that leaves the reference in a run of the whole model, of which each part is right alone."""
        self._progress("looking at the regions of a whole run")
        try:
            given = self.bench.run_regions(arrays)
        except UserError:  # the whole does not run, and that is reported
            return None
        for part in model.parts(values):
            got, want = given.get(part.name), self.wanted(part.case)
            if got is not None and [a.shape for a in got] == [a.shape for a in want]:
                step = self._compared(part, got, want)
                if not step.is_right:
                    return step
        return None

    def judged(self, part: Part, place: int | None = None) -> BisectionStep | None:
        """How *part* compares with the reference; None for a group that runs on the reference's own kernels.

        What was compiled for a *place* in the model is kept.
        """
        try:
            got = self.run(part.case, part.target, place)
        except LostError as error:
            return BisectionStep(part.name, part.target, part.kind, part.nodes, None, str(error), error.is_hung)
        except (UnsupportedError, CompileError) as error:
            if part.kind == GROUP:  # what no code can be generated for
                return None
            return BisectionStep(part.name, part.target, part.kind, part.nodes, None, f"it does not compile: {error}")
        except ContractError as error:  # such as a kernel that wrote to its input, of whatever numbers its results are
            return BisectionStep(part.name, part.target, part.kind, part.nodes, None, str(error))
        except UserError as error:
            return BisectionStep(part.name, part.target, part.kind, part.nodes, None, f"it does not run: {error}")
        return self._compared(part, got, self.wanted(part.case))

    def run(self, case: Case, target: str, place: int | None = None) -> list[np.ndarray]:
        """The outputs of *case*, compiled alone by *target*; in another process where that was asked."""
        return self.bench.run_part(case, target, self.asked.saved, place)

    def wanted(self, case: Case) -> list[np.ndarray]:
        """What the reference that was asked for gives for *case*; the interpreter where that one does not take it."""
        reference = self.asked.reference
        if reference == ONNXRUNTIME:
            try:
                return part_outputs(case.function, case.feeds[0])
            except UserError as error:
                self._notes[f"{case.name} is held to the interpreter: {error}"] = None
        elif reference not in (INTERPRETER, ONNXRUNTIME) and BackendAnswers(get_backend(reference)).takes(
            case.function, ""
        ):
            return self.bench.run_part(case, reference, False)
        return outputs_of(case.function, case.feeds[0], True)

    def _compared(self, part: Part, got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> BisectionStep:
        problems = [self.limits.leaves(a, b) for a, b in zip(got, want, strict=True)]
        problem = next((f"output {k}: {p}" if len(got) > 1 else p for k, p in enumerate(problems) if p), "")
        found = worst([errors(a, b) for a, b in zip(got, want, strict=True)])
        return BisectionStep(part.name, part.target, part.kind, part.nodes, found, problem)

    def _whole(self, main: Function, arrays: dict[str, np.ndarray], want: list[np.ndarray]) -> BisectionStep:
        """The whole model, as users run it."""
        asked = self.asked
        case = Case("the model", "", "model", main, ())
        part = Part("whole", ", ".join(self.targets), "model", (), case)
        self._progress("running the whole model")
        try:
            got = self.bench.run_model(arrays, asked.saved)
        except LostError as error:
            return BisectionStep(part.name, part.target, part.kind, (), None, str(error), error.is_hung)
        except (InputError, UnavailableError):
            raise
        except UserError as error:  # such as what a region raises
            return BisectionStep(part.name, part.target, part.kind, (), None, f"it does not run: {error}")
        if asked.reference == ONNXRUNTIME:
            by_interpreter, want = want, model_outputs(asked.model, arrays, want)
            problems = [self.limits.leaves(a, b) for a, b in zip(by_interpreter, want, strict=True)]
            problem = next((p for p in problems if p), None)
            if problem is not None:
                self._notes[f"the interpreter too leaves ONNX Runtime: {problem}; {PARTS_NOTE}"] = None
        return self._compared(part, got, want)

    def _operator(self, part: Part, step: BisectionStep) -> _Found:
        """The operator of a *part* that is wrong, or the smallest group of operators that is."""
        backend = get_backend(part.target)
        single = [p for p in operator_parts(part)]
        for inner in single:
            self._progress(f"operator {inner.name}")
            if BackendAnswers(backend).takes(inner.case.function, inner.name):
                found = self.judged(replace(inner, kind=part.kind))
                if found is not None and not found.is_right:
                    return _Found(step, replace(found, kind=inner.kind), inner.case)
        if step.is_hung:  # each try would take as long
            return _Found(step, replace(step, kind="operators together"), part.case)
        self._progress("looking for the smallest group of operators")
        small = reduce(part.case, (one_output, cut), self._is_wrong(part), time.monotonic() + REDUCE_SECONDS)
        body = small.function.body
        group = replace(
            part, name=" + ".join(operators(small.function)), nodes=span_names(body.span) or part.nodes, case=small
        )
        return _Found(step, replace(self.judged(group) or step, kind="operators together"), small)

    def _is_wrong(self, part: Part) -> Callable[[Case], bool]:
        def fails(case: Case) -> bool:
            found = self.judged(replace(part, case=case))
            return found is not None and not found.is_right

        return fails

    def _inputs(self, main: Function, number: int, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The inputs of one sample: its own arrays, those of all samples, and seeded ones."""
        specs = []
        for param in main.params:
            if not isinstance(param.checked_type, TensorType):
                raise UserError(f"input {param.name_hint} is a tuple: bisect takes models whose inputs are tensors")
            specs.append(spec_of(param.name_hint, param.checked_type))
        given = {**(self.asked.inputs or {}), **sample}
        unknown = [name for name in given if name not in {s.name for s in specs}]
        if unknown:
            known = ", ".join(s.name for s in specs)
            raise UserError(f"the model has no input {unknown[0]!r}; its inputs are {known}")
        return {**seeded_inputs(specs, self.asked.sizes or {}, self.asked.seed + number), **given}

    def _result(self, whole: BisectionStep, steps: list[BisectionStep], found: _Found | None) -> Bisection:
        asked = self.asked
        name = os.fspath(asked.model) if isinstance(asked.model, (str, os.PathLike)) else "the model"
        made = Bisection(
            Path(name).name, tuple(self.targets), asked.reference, whole, tuple(steps), notes=tuple(self._notes)
        )
        if found is None:
            return made
        path = ""
        if asked.case is not None:
            nodes = {"nodes": list(found.operator.nodes), "target": found.operator.target}
            kept = replace(found.case, notes=nodes)
            path = str(write_case(kept, Path(asked.case), self.wanted(found.case)))
        inputs = tuple(f"{n} = {shown(a)}" for n, a in found.case.inputs().items())
        return replace(made, part=found.part, operator=found.operator, text=found.case.text, inputs=inputs, case=path)


def replay(
    case: str | os.PathLike[str],
    target: str,
    limits: ErrorLimits | None = None,
    seconds: float = PART_SECONDS,
    precision: str = "f32",
) -> BisectionStep:
    """Run a case that bisect or certify wrote on *target*, against the outputs in it.

    It runs in a worker process, whose steps may take as many *seconds* each; its products in *precision*.

    Raises InputError for a file that is no case, UserError where it does not compile or run.
    """
    found, want = read_case(Path(case))
    nodes = found.notes.get("nodes")
    part = Part(found.name, target, found.kind, tuple(map(str, nodes)) if isinstance(nodes, list) else (), found)
    try:
        asked = None if precision == "f32" else BisectRequest(b"", target, precision=precision)
        with Workbench([target], asked, seconds) as bench:
            got = bench.run_part(found, target, False)
    except LostError as error:
        return BisectionStep(part.name, target, part.kind, part.nodes, None, str(error), error.is_hung)
    except ContractError as error:
        return BisectionStep(part.name, target, part.kind, part.nodes, None, str(error))
    problems = [(limits or ErrorLimits()).leaves(a, b) for a, b in zip(got, want, strict=True)]
    worst_errors = worst([errors(a, b) for a, b in zip(got, want, strict=True)])
    problem = next((p for p in problems if p), "")
    return BisectionStep(part.name, target, part.kind, part.nodes, worst_errors, problem)
