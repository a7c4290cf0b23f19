"""A compiled model: what ``byoc.compile`` gives and ``byoc.runtime.load`` loads.

It holds the graph, the module tree and what the model takes and gives; any number of threads may call it, each
with an executor of its own.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from byoc.runtime.artefact.artifact import write_artifact
from byoc.runtime.content import INITIALIZATION, fixed_inputs, library_content, plan_of
from byoc.runtime.core.entry_points import version
from byoc.runtime.core.errors import ArtifactError, OutOfMemoryError
from byoc.runtime.core.fork import new_rlock
from byoc.runtime.core.signature import listed
from byoc.runtime.core.time_limit import time_limit
from byoc.runtime.graph.executor_base import Executor, check_names, check_threads
from byoc.runtime.graph.graph import Graph, ModelPorts, given_back
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import Module

if TYPE_CHECKING:
    from byoc.runtime.devices.peak import Peak
    from byoc.runtime.executors.background_tuning import BackgroundTuning, TuningSource
    from byoc.runtime.executors.bound_library import BoundLibrary
    from byoc.runtime.executors.call_stream import CallStream
    from byoc.runtime.executors.graph_executor import GraphExecutor
    from byoc.runtime.executors.preparation import Preparation
    from byoc.runtime.files.file_memory import FileWatch
    from byoc.runtime.graph.graph import LoopCall, LoopResult
    from byoc.runtime.profile.run_profile import RunProfile
    from byoc.runtime.region.record import Fallback
    from byoc.runtime.region.variants import ChosenVariants

Result = TypeVar("Result")


class Library(ModelPorts):
    """A model ready to run.

    ``lib(x)`` takes the inputs in their order and returns the output (a list when there are several);
    ``lib.run({name: array})`` takes them by name and returns the list of outputs. Those of ``input_defaults`` may be
    left out. ``threads`` is how many threads a run may use; None leaves it to the executor: the processors that this
    process may use, one for a tiny model.
    """

    def __init__(
        self,
        graph: Mapping[str, object],
        module: MetadataModule,
        output_names: Sequence[str],
        report: Mapping[str, object] | None = None,
        threads: int | None = None,
        watch: FileWatch | None = None,
    ):
        self._threads: int | None = None
        self._watch = watch
        self.graph_json = graph
        self.module = module
        self.report = dict(report or {})
        super().__init__(Graph(graph), module.owner, output_names)
        self._graph.fixed = fixed_inputs(self.report)
        self._idle: deque[Executor] = deque()
        self._streams: deque[CallStream | None] = deque()  # that nobody uses
        self.edited: str | None = None  # why this library, read from a file, is not run
        self.unchanged = new_rlock()  # held while modules and report are to stay as they are
        self.tuning_source: TuningSource | None = None  # what the compiler gives to tune it by
        self._tuning: BackgroundTuning | None = None
        self.threads = threads

    @property
    def threads(self) -> int | None:
        """How many threads a run may use, in parts behind control flow too."""
        return self._threads

    @threads.setter
    def threads(self, count: int | None) -> None:
        self._threads = count
        for module in self.module.walk():
            module.use_threads(count)

    def executor(self, threads: int | None = None) -> Executor:
        """A new executor: the whole model by one native call where the library can, else node by node.

        *threads* is as the library's where it is None. Raises UserError for a number of threads below 1.
        """
        from byoc.runtime.executors.mapped_executor import MappedExecutor

        self._check_seal()
        wanted = self.threads if threads is None else threads
        check_threads(wanted)
        for module in self.module.imports:
            whole = module.whole_executor(self._graph, self.module, wanted)
            if whole is not None:
                return whole if self._watch is None else MappedExecutor(whole, self._watch)
        return self.graph_executor()

    def graph_executor(self) -> GraphExecutor:
        """A new executor that calls node by node, on one thread: every value between them can be looked at."""
        from byoc.runtime.executors.graph_executor import GraphExecutor

        self._check_seal()
        return GraphExecutor(self._graph, self.module, watch=self._watch)

    def _check_seal(self) -> None:
        if self.edited:
            raise ArtifactError(f"the artefact cannot run: {self.edited}")

    def run(self, inputs: Mapping[str, object], timeout: float | None = None) -> list[np.ndarray]:
        """All outputs for *inputs* by name.

        Args:
            inputs: an array for each of the model's inputs; one with a default may be left out.
            timeout: the seconds that the run may take; None for as long as it takes.

        Raises:
            InputError: an input does not fit, or an index in one is outside its dimension.
            RunTimeoutError: the time is over. The library can run again.
        """
        inputs = self._graph.completed(inputs)
        check_names(self.inputs, inputs, self._graph.fixed)
        values = [inputs[spec.name] for spec in self.inputs]
        if timeout is None:
            return self.compute(values)
        with time_limit(timeout):
            return self.compute(values)

    def map(self, calls: Iterable[Mapping[str, object]], timeout: float | None = None) -> Iterator[list[np.ndarray]]:
        """The outputs for the inputs of each of *calls*, in their order: a run for each, and at most three at a time.

        Where devices with memory of their own compute the whole model, and a call copies at least 2 MB, the inputs of
        the next call go to the device, and the outputs of the last come from it, while it computes: *calls* is asked
        for up to two more than were given back. An array that was given may be filled anew then. Other calls are made
        one after the other, as :meth:`run` makes them.

        Args:
            calls: the inputs of a run each, as :meth:`run` takes them; they may come from a generator.
            timeout: the seconds that each run may take; None for as long as it takes.

        Raises what :meth:`run` raises, in the turn of the call that it is about, and what *calls* raises.
        """
        from byoc.runtime.executors.call_stream import mapped

        bind = None if self.has_forms else partial(self.bind, [spec.name for spec in self.outputs])
        return mapped(self._streams, bind, self.run, calls, timeout)

    def compute(self, inputs: Sequence[object]) -> list[np.ndarray]:
        """All outputs for *inputs* in their order, whose number is not looked at."""
        if not self.has_forms:
            return self._by_executor(lambda executor: executor.compute(inputs))
        given = self.in_forms(inputs)
        return given_back(self._forms[1], self._by_executor(lambda executor: executor.compute(given)))

    def loop(self, call: LoopCall, inputs: Sequence[object]) -> LoopResult | None:
        """Runs that follow each other as *call* says; None where they cannot be made without Python in between."""
        return None if self.has_forms else self._by_executor(lambda executor: executor.loop(call, inputs))

    def _by_executor(self, work: Callable[[Executor], Result]) -> Result:
        """What *work* does with an executor that nobody uses meanwhile."""
        try:
            executor = self._idle.pop()
        except IndexError:
            executor = self.executor()
        try:
            return work(executor)
        except OutOfMemoryError:
            raise
        except MemoryError as error:
            raise OutOfMemoryError.of_run(error) from error
        finally:
            self._idle.append(executor)

    def __call__(self, *inputs: object) -> np.ndarray | list[np.ndarray]:
        outputs = self.compute(self.all_of(inputs))
        return outputs[0] if len(outputs) == 1 else outputs

    def __repr__(self) -> str:
        kinds = ", ".join(dict.fromkeys(module.type_key for module in self.module.imports))
        return f"Library({listed(self.inputs)} -> {listed(self.outputs)}; {kinds})"

    def problems(self) -> dict[str, str]:
        """What keeps modules from running on this machine: a sentence by module; empty when all can run.

        A module whose regions the host can run instead keeps nothing from running.
        """
        from byoc.runtime.modules.lost_module import covered_symbols, problem_of

        covered = covered_symbols(self.module)
        found = {f"module {k} ({m.type_key})": problem_of(m, covered) for k, m in enumerate(self.module.imports)}
        return {place: problem for place, problem in found.items() if problem}

    @property
    def fallbacks(self) -> list[Fallback]:
        """The regions that ran on the host instead, so far, in all executors: where their backends failed, and how."""
        return self.module.fallbacks

    @property
    def variants(self) -> list[ChosenVariants]:
        """The kernels that regions chose for the sizes of their calls, so far, where a backend has several for one."""
        return [chosen for module in self.module.imports for chosen in getattr(module, "variants", ())]

    def initialize(self) -> None:
        """Have every module initialised, and the report say what that took: engines are built, constants handed over.

        Raises what a backend raises, with its region, where the host does not stand in.
        """
        self.module.initialize_all()
        self._idle.append(self.executor())
        self.report[INITIALIZATION] = self.initialization

    def bind(self, on_device: Iterable[str] = ()) -> BoundLibrary:
        """Runs whose inputs and outputs may stay on a device from call to call.

        ``bound = library.bind(["present"])`` gives the output ``present`` as a tensor of the device, which may be an
        input of the next run, here or in another library: ``bound.run({"x": x, "past": present})``. It is a copy on
        the host by ``present.numpy()``.

        Args:
            on_device: the outputs that stay there; the others are arrays.

        Raises:
            InputError: a name that no output has.
        """
        from byoc.runtime.executors.bound_library import BoundLibrary

        self._check_seal()
        return BoundLibrary(self._graph, self.module, self.outputs, on_device)

    def prepare(self, *shapes: Mapping[str, object]) -> None:
        """Do all that the first run with inputs of certain shapes would do: build, allocate, initialise, choose.

        It is such a run, on ones (integers are 0). A run with these sizes then builds nothing and allocates nothing on
        a device, which ``device_counts`` shows; memory of the device is kept for all sets of shapes prepared so far.

        Args:
            shapes: one set of shapes each, by the names of inputs: ``{"x": (1, 3, 224, 224)}``. An array stands for
                itself, for a model that refuses ones. Inputs whose sizes are known may be left out.

        Raises:
            InputError: a name that no input has, a shape that does not fit, a size that nothing determines.
            DeviceError: what a device refuses, where the host does not stand in.
        """
        for inputs in self._asked(shapes):
            self.run(inputs)

    def prepare_in_background(self, *shapes: Mapping[str, object]) -> Preparation:
        """As :meth:`prepare`, while runs go on: until it is done, the host computes what devices shall compute.

        Each region that waits for its device has a record in ``fallbacks`` of the stage ``warming``. The model must
        have been compiled with ``fallback=True``, so that the host has a version of each region. Regions in branches
        that ones do not take, and in loops that they do not enter, are prepared alone.

        Args:
            shapes: as :meth:`prepare` takes them.

        Returns:
            A handle that says whether it is done, and waits for it.

        Raises:
            InputError: as :meth:`prepare` does.
            UserError: a region on a device that the host has no version of.
        """
        from byoc.runtime.executors.preparation import in_background
        from byoc.runtime.executors.prepared_inputs import sizes_of

        asked = self._asked(shapes)
        calls = [self.in_forms([inputs[spec.name] for spec in self.inputs]) for inputs in asked]
        return in_background(self.module, self.graph_executor, calls, [sizes_of(self.inputs, a) for a in asked])

    def tune_in_background(
        self, level: str = "normal", seconds: float | None = None, *, on_host: bool = False
    ) -> BackgroundTuning:
        """Tune the kernels of devices while runs go on; a region's next call after its tuning takes the tuned ones.

        As ``byoc.compile`` tunes at *level*, with the same database; the library must have been compiled in this
        process with ``tune_later=True``. Until then the kernels that it has compute, or what stands in for them while
        :meth:`prepare_in_background` is at work. ``report["background_tuning"]`` says what was tried, in the end.

        Args:
            level: ``fast``, ``normal``, ``wide`` or ``heavy``.
            seconds: that trials may take; None for as many as the level allows.
            on_host: have the host compute these regions meanwhile, for which it needs ``fallback=True``, so that runs
                do not disturb the times of trials.

        Returns:
            A handle that tells the progress, waits, and can stop it.

        Raises:
            UserError: there is nothing to tune or to tune it by, an unknown level, or one is at work already.
        """
        from byoc.runtime.executors.background_tuning import begin

        self._tuning = begin(self, (level, seconds, on_host), self._tuning)
        return self._tuning

    def _asked(self, shapes: Sequence[Mapping[str, object]]) -> list[dict[str, np.ndarray]]:
        """Inputs of the *shapes* that are to be prepared, which modules are to keep ready from now on."""
        from byoc.runtime.executors.prepared_inputs import prepared_inputs

        asked = [prepared_inputs(self.inputs, self._graph.completed(given)) for given in shapes or ({},)]
        self.module.keep_more_sizes(len(asked))
        return asked

    @property
    def device_counts(self) -> Mapping[str, int]:
        """What devices were asked for so far, by name: programs, kernels, allocations, bytes copied in and out.

        Modules that have no device, or do not count, add nothing.
        """
        found: Counter[str] = Counter()
        for module in self.module.walk():
            found.update(module.counts)
        return dict(found)

    @property
    def initialization(self) -> list[dict[str, object]]:
        """The modules that have been initialised so far, with their symbols and the seconds that it took."""
        return self.module.initialization

    def profile(
        self,
        inputs: Mapping[str, object] | None = None,
        *,
        repeat: int = 10,
        warmup: int = 2,
        peaks: Mapping[str, Peak] | None = None,
    ) -> RunProfile:
        """Run the model node by node and as a whole, and report what each part takes.

        Args:
            inputs: arrays by name; seeded numbers where there are none, a free dimension being 1.
            repeat: the runs that count.
            warmup: the runs before them that do not.
            peaks: what the devices can do at most, by backend; None for what a device's module knows of it (OpenCL's
                measures it once), and else what ``byoc calibrate`` found, where the compiler is installed.

        Returns:
            Times, bytes and operations by region, kernel, operator and ONNX node; ``print`` shows them.

        Raises:
            InputError: an input does not fit.
            UserError: a number of runs that is none.
        """
        from byoc.runtime.profile.library_profile import profile_library  # what a run does not need

        return profile_library(self, inputs, repeat, warmup, peaks)

    @property
    def plan(self) -> Any:
        """The plan by which the model was cut, a ``byoc.partition.Plan``.

        Raises UnavailableError where the compiler is not installed: ``report["plan"]`` has it as JSON.
        """
        return plan_of(self.report)

    @property
    def lib(self) -> Module:
        """The root of the module tree."""
        return self.module

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the artefact to *path* whole or not at all, and return the path.

        Raises UserError when the file cannot be written, or when a vendor's module cannot be saved.
        """
        parts, members = self.content()
        needed = sorted({m.type_key for m in self.module.imports})
        manifest = {**parts, "producer": {"name": "byoc", "version": version()}, "requires": needed}
        return write_artifact(Path(path), manifest, members)

    def content(self) -> tuple[dict[str, object], dict[str, bytes]]:
        """What an artefact holds of the library: what its manifest says, and the members.

        Raises UserError when a vendor's module cannot be saved.
        """
        with self.unchanged:
            return library_content(self.graph_json, self.module, self, self.report)
