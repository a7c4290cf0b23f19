"""A compiled model: what ``byoc.compile`` gives and ``byoc.runtime.load`` loads.

It holds the graph, the module tree and what the model takes and gives; any number of threads may call it, each
with an executor of its own.
"""

from __future__ import annotations

import importlib
import json
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from byoc.runtime.artefact.artifact import read_artifact, write_artifact
from byoc.runtime.artefact.manifest import Manifest, ModuleEntry, read_manifest
from byoc.runtime.artefact.signing import Key, trusted_keys
from byoc.runtime.consistency import check_graph, check_parts
from byoc.runtime.core.distribution import version
from byoc.runtime.core.errors import ArtifactError, InputError, OutOfMemoryError, UnavailableError, UserError
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.core.strict_json import mapping_of, read_json
from byoc.runtime.core.time_limit import time_limit
from byoc.runtime.executors.graph_executor import GraphExecutor
from byoc.runtime.executors.mapped_executor import MappedExecutor
from byoc.runtime.files.file_memory import FileWatch
from byoc.runtime.files.weights import read_weights, write_weights
from byoc.runtime.graph.executor_base import Executor, check_threads
from byoc.runtime.graph.graph import Graph
from byoc.runtime.graph.graph_check import checked_graph
from byoc.runtime.graph.values import forms_of, given_back, vectors
from byoc.runtime.modules.lost import (
    check_lost,
    class_for,
    covered_symbols,
    load_or_lose,
    problem_of,
    told_loader,
    told_packages,
)
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import (
    Members,
    Module,
    members_below,
    packages_of,
    saved_members,
)
from byoc.runtime.profile.graph_profile import Runs, backends_of, profile_graph
from byoc.runtime.profile.kept_peaks import kept_peaks
from byoc.runtime.profile.record import Peak
from byoc.runtime.profile.run_profile import RunProfile
from byoc.runtime.profile.seeded import seeded_inputs
from byoc.runtime.region.record import Fallback
from byoc.runtime.region.variants import ChosenVariants

INITIALIZATION = "initialization"  # in the report: of this process, and so not saved
GRAPH_MEMBER, WEIGHTS_MEMBER, REPORT_MEMBER = "graph.json", "weights.safetensors", "report.json"


MOST_SHOWN = 3  # tensors in a library's short form


class Library:
    """A model ready to run.

    ``lib(x)`` takes the inputs in their order and returns the output (a list when there are several);
    ``lib.run({name: array})`` takes them by name and returns the list of outputs. ``threads`` is how many threads a
    run may use; None leaves it to the executor: the processors that this process may use, one for a tiny model.
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
        self.threads = threads
        self._watch = watch
        self.graph_json = graph
        self.module = module
        self.report = dict(report or {})
        self._graph = Graph(graph)
        self.inputs: tuple[TensorSpec, ...] = tuple(self._graph.specs[n.outputs[0]] for n in self._graph.inputs)
        self.outputs: tuple[TensorSpec, ...] = tuple(
            TensorSpec(name, self._graph.specs[head].shape, self._graph.specs[head].dtype)
            for name, head in zip(output_names, self._graph.heads, strict=True)
        )
        self._forms = forms_of(self._graph, module.owner)
        self._idle: deque[Executor] = deque()
        self.edited: str | None = None  # why this library, read from a file, is not run

    def executor(self, threads: int | None = None) -> Executor:
        """A new executor: the whole model by one native call where the library can, else node by node.

        *threads* is as the library's where it is None. Raises UserError for a number of threads below 1.
        """
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
        self._check_seal()
        return GraphExecutor(self._graph, self.module, watch=self._watch)

    def _check_seal(self) -> None:
        if self.edited:
            raise ArtifactError(f"the artefact cannot run: {self.edited}")

    def run(self, inputs: Mapping[str, object], timeout: float | None = None) -> list[np.ndarray]:
        """All outputs for *inputs* by name.

        Args:
            inputs: an array for each of the model's inputs.
            timeout: the seconds that the run may take; None for as long as it takes.

        Raises:
            InputError: an input does not fit, or an index in one is outside its dimension.
            RunTimeoutError: the time is over. The library can run again.
        """
        if not isinstance(inputs, Mapping):
            raise InputError(f"run takes the inputs by name, as a dictionary, got a {type(inputs).__name__}")
        if len(inputs) != len(self.inputs) or not all(spec.name in inputs for spec in self.inputs):
            self._refuse_names(inputs)
        values = [inputs[spec.name] for spec in self.inputs]
        if timeout is None:
            return self.compute(values)
        with time_limit(timeout):
            return self.compute(values)

    def _refuse_names(self, inputs: Mapping[str, object]) -> None:
        unknown = [name for name in inputs if name not in {s.name for s in self.inputs}]
        if unknown:
            raise InputError(
                f"the model has no input {unknown[0]!r}; its inputs are {', '.join(s.name for s in self.inputs)}"
            )
        missing = [s for s in self.inputs if s.name not in inputs]
        raise InputError(
            f"input {', '.join(repr(s.name) for s in missing)} is missing; "
            f"the inputs are {', '.join(f'{s.name}: {s.dtype}{s}' for s in self.inputs)}"
        )

    def compute(self, inputs: Sequence[object]) -> list[np.ndarray]:
        """All outputs for *inputs* in their order, whose number is not looked at."""
        try:
            executor = self._idle.pop()
        except IndexError:
            executor = self.executor()
        try:
            if not any(self._forms):
                return executor.compute(inputs)
            found = executor.compute(vectors(self.inputs, self._forms[0], inputs))
            return given_back(self._forms[1], found)
        except OutOfMemoryError:
            raise
        except MemoryError as error:
            raise OutOfMemoryError(
                f"this process has too little memory for a run ({str(error) or 'how much is not known'}): take smaller "
                "inputs, or allow it more"
            ) from error
        finally:
            self._idle.append(executor)

    def __call__(self, *inputs: object) -> np.ndarray | list[np.ndarray]:
        if len(inputs) != len(self.inputs):
            names = ", ".join(f"{s.name}{s}" for s in self.inputs)
            raise InputError(f"the model takes {len(self.inputs)} inputs ({names}), got {len(inputs)}")
        outputs = self.compute(inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def __repr__(self) -> str:
        def listed(specs: Sequence[TensorSpec]) -> str:
            shown = ", ".join(f"{s.name}: {s.dtype}{s}" for s in specs[:MOST_SHOWN])
            return f"{shown}, ..." if len(specs) > MOST_SHOWN else shown

        kinds = ", ".join(dict.fromkeys(module.type_key for module in self.module.imports))
        return f"Library({listed(self.inputs)} -> {listed(self.outputs)}; {kinds})"

    def problems(self) -> dict[str, str]:
        """What keeps modules from running on this machine: a sentence by module; empty when all can run.

        A module whose regions the host can run instead keeps nothing from running.
        """
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
        """Run the model node by node and as a whole, and tell what each part takes.

        Args:
            inputs: arrays by name; seeded numbers where there are none, a free dimension being 1.
            repeat: the runs that count.
            warmup: the runs before them that do not.
            peaks: what the devices can do at most, by backend; None for what ``byoc calibrate`` found on this machine,
                where the compiler is installed that keeps it.

        Returns:
            Times, bytes and operations by region, kernel, operator and ONNX node; ``print`` shows them.

        Raises:
            InputError: an input does not fit.
            UserError: a number of runs that is none.
        """
        values = seeded_inputs(self.inputs) if inputs is None else {**inputs}
        found = kept_peaks(backends_of(self.module)) if peaks is None else peaks
        executors = self.graph_executor(), self.executor()
        return profile_graph("model", self.module, executors, values, Runs(repeat, warmup), found)

    @property
    def plan(self) -> Any:
        """The plan by which the model was cut, a ``byoc.partition.Plan``.

        Raises UnavailableError where the compiler is not installed: ``report["plan"]`` has it as JSON.
        """
        try:
            home = importlib.import_module("byoc.partition.plan.plan")  # by name: the runtime is there without it
        except ImportError as error:
            raise UnavailableError(
                f'plans are the compiler\'s, of which {error.name} is missing: see report["plan"]'
            ) from error
        return home.Plan.from_json(self.report["plan"])

    @property
    def lib(self) -> Module:
        """The root of the module tree."""
        return self.module

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the artefact to *path* whole or not at all, and return the path.

        Raises UserError when the file cannot be written, or when a vendor's module cannot be saved.
        """
        parts, members = self.content()
        manifest = {
            **parts,
            "producer": {"name": "byoc", "version": version()},
            "requires": sorted({m.type_key for m in self.module.imports}),
        }
        return write_artifact(Path(path), manifest, members)

    def content(self) -> tuple[dict[str, object], dict[str, bytes]]:
        """What an artefact holds of the library: what its manifest tells, and the members.

        Raises UserError when a vendor's module cannot be saved.
        """
        modules = [
            {"type_key": m.type_key, "symbols": list(m.symbols), "path": f"modules/{k}_{m.type_key}", **packages_of(m)}
            for k, m in enumerate(self.module.imports)
        ]
        report = {key: value for key, value in self.report.items() if key != INITIALIZATION}
        members: dict[str, bytes] = {
            GRAPH_MEMBER: json.dumps(self.graph_json, indent=1).encode(),
            WEIGHTS_MEMBER: write_weights(self.module.constant_arrays),
            REPORT_MEMBER: json.dumps(report, indent=1).encode(),
        }
        for name, data in self.module.save().items():
            members[f"metadata/{name}"] = data
        for entry, module in zip(modules, self.module.imports, strict=True):
            for name, data in saved_members(module).items():
                members[f"{entry['path']}/{name}"] = data
        told = {"inputs": [s.to_json() for s in self.inputs], "outputs": [s.to_json() for s in self.outputs]}
        return {"modules": modules, **told}, members


def load(
    path: str | os.PathLike[str],
    threads: int | None = None,
    *,
    mapped: bool = False,
    trusted: Iterable[Key] | None = None,
    eager: bool = False,
) -> Library:
    """Load an artefact that ``Library.save`` wrote, to run on so many *threads*; needs no compiler.

    The file is read into memory, and may be overwritten or removed afterwards. With *mapped* it is mapped instead, so
    that processes which load it share its weights in memory: the caller promises that it is replaced by renaming or
    removed, never written into. Runs look for that (its size and time of change) and raise ArtifactError.

    With *trusted*, public keys (PEM files, or their content), only what one of them signed is loaded; without, what a
    key in the folder ``$BYOC_TRUSTED_KEYS`` signed, where that is set. The signature is looked at before all else.

    With *eager* every module is initialised now, not when it is first used, which the report says (``initialization``).

    Raises ArtifactError for a damaged file, a newer schema, or a missing member, and UnavailableError for a missing
    device or another processor, before anything runs.
    """
    library = _read(Path(path), mapped, trusted_keys(trusted), bears_lost=False)
    for place, problem in library.problems().items():
        raise UnavailableError(f"{path}: {place} cannot run here: {problem}")
    if library.edited:
        raise ArtifactError(f"{path}: {library.edited}")
    library.threads = threads
    if eager:
        library.initialize()
    return library


def read_library(path: str | os.PathLike[str], mapped: bool = False, trusted: Sequence[bytes] | None = None) -> Library:
    """As :func:`load`, but without asking whether this machine can run it: to look into it.

    It needs no vendor's package: ``Library.problems`` tells of modules that cannot be loaded.
    """
    return _read(Path(path), mapped, trusted, bears_lost=True)


def _read(path: Path, mapped: bool, trusted: Sequence[bytes] | None, bears_lost: bool) -> Library:
    artifact = read_artifact(path, mapped, trusted)
    try:
        library = library_of(read_manifest(artifact.manifest), artifact.members, str(path), bears_lost, artifact.watch)
        library.edited = artifact.edited
        return library
    except ArtifactError as error:
        raise error if str(path) in str(error) else type(error)(f"{path}: {error}") from error
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise ArtifactError(f"{path}: its members do not fit together ({error!r}); save the model again") from error


def library_of(
    told: Manifest, members: Members, where: str, bears_lost: bool = False, watch: FileWatch | None = None
) -> Library:
    """The library whose :meth:`Library.content` is *told* and *members*.

    Raises ArtifactError, which names *where*, for a member that is missing or does not fit the others.
    """
    for needed in (GRAPH_MEMBER, WEIGHTS_MEMBER, REPORT_MEMBER, "metadata/constants.json"):
        if needed not in members:
            raise ArtifactError(f"{where}: member {needed} is missing; the file was not written by Library.save")
    constants = read_weights(memoryview(members[WEIGHTS_MEMBER]), where)
    root = MetadataModule.with_constants(members_below(members, "metadata"), constants)
    loaded = []
    for entry in told.modules:
        module = _module(entry, members_below(members, entry.path))
        root.import_module(module)
        loaded.append((module, entry.symbols))
    check_lost(root, bears_lost)
    check_parts(root, loaded)
    graph = checked_graph(read_json(members[GRAPH_MEMBER], GRAPH_MEMBER), GRAPH_MEMBER)
    report = mapping_of(read_json(members[REPORT_MEMBER], REPORT_MEMBER, constants=True), REPORT_MEMBER)
    library = Library(graph, root, [spec.name for spec in told.outputs], report, watch=watch)
    check_graph(graph, library._graph, root, told.inputs, told.outputs, GRAPH_MEMBER)
    return library


def _module(entry: ModuleEntry, members: Members) -> Module:
    def load() -> Module:
        with told_packages(entry.packages):
            kind = class_for(entry.type_key)
            with told_loader(entry.type_key):
                return kind.load(members)

    return load_or_lose(entry.type_key, entry.symbols, members, load)
