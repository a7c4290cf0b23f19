"""The trials of one kernel on a device: every candidate emitted alone, then run in a batch; and which of them won."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from byoc.codegen.kernel.choice import Choice, Choices, SearchSpace
from byoc.codegen.kernel.inline import SYMBOLIC_EXTENT
from byoc.codegen.kernel.program import Program
from byoc.codegen.opencl.tuning.device_batch import DeviceCandidate, DeviceTrialBatch, InputData
from byoc.codegen.tune.record import DROPPED, MEASURED, Trial
from byoc.codegen.tune.trial_batch import Outcome
from byoc.codegen.tune.trials import Only, Try
from byoc.codegen.tune.worker_process import WorkerProcess
from byoc.errors import ByocError
from byoc.te.tensor import Load
from byoc.te.walk import unique_nodes

WON = 0.95  # of the median time of the model's choice: what another must stay below to be taken
Alone = Callable[[SearchSpace], Program]
Emit = Callable[[SearchSpace, Program, Choices], DeviceCandidate]
RunDeviceBatch = Callable[[DeviceTrialBatch], Sequence[Outcome]]


class DeviceTrialRunner:
    """Tries candidates in so many *rounds*: *alone* makes a program of a space's kernel, *emit* writes it.

    *device* is the device as of ``DeviceTrialBatch``.
    """

    def __init__(self, alone: Alone, emit: Emit, rounds: int, run_batch: RunDeviceBatch, device: str = ""):
        self.alone, self.emit, self.rounds, self.run_batch, self.device = alone, emit, rounds, run_batch, device

    def trials(self, space: SearchSpace, candidates: Sequence[Choice], rest: Choices) -> list[Trial]:
        """A trial for each of *candidates*, in their order; the first is the one that others must agree with.

        One that wins has to win over the first once more, alone with it: of many candidates on a shared device the
        luckiest looks fast. *rest* chooses from the spaces that a candidate opens in its turn.
        """
        program = self.alone(space)
        compiled: dict[Choice, DeviceCandidate] = {}
        outcomes: dict[Choice, Outcome] = {}
        for choice in candidates:
            only = Only(space.kernel, choice, rest)
            try:
                candidate = self.emit(space, program, only)
            except ByocError as error:
                outcomes[choice] = f"failed: {error}"
                continue
            if only.given:
                compiled[choice] = candidate
            else:
                outcomes[choice] = "failed: alone the kernel is another one"
        inputs = inputs_of(program)
        outcomes.update(self._run(list(compiled), compiled, inputs))
        found = {choice: _trial(choice, outcomes[choice]) for choice in candidates}
        first = candidates[0]
        while found[first].shortest is not None and (best := clear_winner(list(found.values()), first)) != first:
            again = self._run([first, best], compiled, inputs)
            if clear_winner([_trial(c, o) for c, o in again.items()], first) == best:
                break
            found[best] = replace(found[best], state=DROPPED)
        return [found[choice] for choice in candidates]

    def _run(
        self,
        choices: Sequence[Choice],
        compiled: Mapping[Choice, DeviceCandidate],
        inputs: tuple[InputData, ...],
    ) -> dict[Choice, Outcome]:
        """What becomes of *choices* in one batch."""
        if not choices:
            return {}
        batch = DeviceTrialBatch(tuple(compiled[c] for c in choices), inputs, self.rounds, self.device)
        return dict(zip(choices, self.run_batch(batch), strict=True))


@contextmanager
def device_trial_runner(alone: Alone, emit: Emit, rounds: int, device: str) -> Iterator[Try]:
    """Trials whose candidates run in a process of their own, which ends with the context."""
    with WorkerProcess() as worker:
        yield DeviceTrialRunner(alone, emit, rounds, worker.run, device).trials


def inputs_of(program: Program) -> tuple[InputData, ...]:
    """What the inputs of *program* hold while it is tried; sizes that are free are SYMBOLIC_EXTENT, as in estimates."""
    sizes = dict.fromkeys(program.sizes, SYMBOLIC_EXTENT)
    stages = [s for group in program.groups for s in group.stages]
    loads = [n for s in stages for n in unique_nodes(s.element) if isinstance(n, Load)]
    places = {n.tensor for load in loads for i in load.indices for n in unique_nodes(i) if isinstance(n, Load)}
    return tuple(
        InputData(spec.concrete_shape(sizes), spec.dtype, tensor in places)
        for tensor, spec in zip(program.inputs, program.signature.inputs, strict=True)
    )


def _trial(choice: Choice, outcome: Outcome) -> Trial:
    if isinstance(outcome, str):
        return Trial(choice, state=outcome)
    return Trial(choice, outcome.shortest, outcome.median, DROPPED if outcome.dropped else MEASURED)


def clear_winner(trials: Sequence[Trial], expected: Choice) -> Choice:
    """The choice with the least median of those measured to the end, where it is clearly faster than *expected*.

    Its median has to stay below WON times that of *expected*, and below the shortest of all times of *expected*: how
    far these lie apart is how far luck goes on this device. The shortest time alone would choose what was lucky once,
    with all its threads awake, say; a model takes the mean. *expected* where nothing is faster, and where it failed
    itself the best of the others.
    """
    timed = [(t.median, t.choice) for t in trials if t.median is not None and t.state == MEASURED]
    if not timed:
        return expected
    median, best = min(timed, key=lambda pair: pair[0])
    own = next((t for t in trials if t.choice == expected), None)
    if own is None or own.shortest is None or own.median is None:
        return best
    return best if median < min(WON * own.median, own.shortest) else expected
