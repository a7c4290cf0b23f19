"""A compiled model: what ``byoc.compile`` gives and ``byoc.runtime.load`` loads.

It holds the graph, the module tree and what the model takes and gives; any number of threads may call it, each
with an executor of its own.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from byoc.runtime.artefact.artifact import Artifact, read_artifact, write_artifact
from byoc.runtime.artefact.manifest import ModuleEntry, read_manifest, read_tree
from byoc.runtime.artefact.signing import Key, trusted_keys
from byoc.runtime.consistency import check_graph, check_parts
from byoc.runtime.core.distribution import version
from byoc.runtime.core.errors import ArtifactError, InputError, OutOfMemoryError, UnavailableError, UserError
from byoc.runtime.core.ndarray import NDArray
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
from byoc.runtime.modules.lost import check_lost, covered_symbols, load_or_lose, problem_of
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import ARRAYS_MEMBER, Members, Module, members_below, module_class, saved_members
from byoc.runtime.region.record import Fallback
from byoc.runtime.region.variants import ChosenVariants

GRAPH_MEMBER, WEIGHTS_MEMBER, REPORT_MEMBER = "graph.json", "weights.safetensors", "report.json"


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
            return self._compute(values)
        with time_limit(timeout):
            return self._compute(values)

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

    def _compute(self, inputs: Sequence[object]) -> list[np.ndarray]:
        try:
            executor = self._idle.pop()
        except IndexError:
            executor = self.executor()
        try:
            return executor.compute(inputs)
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
        outputs = self._compute(inputs)
        return outputs[0] if len(outputs) == 1 else outputs

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

    @property
    def lib(self) -> Module:
        """The root of the module tree."""
        return self.module

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the artefact to *path* whole or not at all, and return the path.

        Raises UserError when the file cannot be written, or when a vendor's module cannot be saved.
        """
        modules = [
            {"type_key": m.type_key, "symbols": list(m.symbols), "path": f"modules/{k}_{m.type_key}"}
            for k, m in enumerate(self.module.imports)
        ]
        members: dict[str, bytes] = {
            GRAPH_MEMBER: json.dumps(self.graph_json, indent=1).encode(),
            WEIGHTS_MEMBER: write_weights(self.module.constant_arrays),
            REPORT_MEMBER: json.dumps(self.report, indent=1).encode(),
        }
        for name, data in self.module.save().items():
            members[f"metadata/{name}"] = data
        for entry, module in zip(modules, self.module.imports, strict=True):
            for name, data in saved_members(module).items():
                members[f"{entry['path']}/{name}"] = data
        manifest = {
            "modules": modules,
            "inputs": [s.to_json() for s in self.inputs],
            "outputs": [s.to_json() for s in self.outputs],
            "producer": {"name": "byoc", "version": version()},
            "requires": sorted({m.type_key for m in self.module.imports}),
        }
        return write_artifact(Path(path), manifest, members)


def load(
    path: str | os.PathLike[str],
    threads: int | None = None,
    *,
    mapped: bool = False,
    trusted: Iterable[Key] | None = None,
) -> Library:
    """Load an artefact that ``Library.save`` wrote, to run on so many *threads*; needs no compiler.

    The file is read into memory, and may be overwritten or removed afterwards. With *mapped* it is mapped instead, so
    that processes which load it share its weights in memory: the caller promises that it is replaced by renaming or
    removed, never written into. Runs look for that (its size and time of change) and raise ArtifactError.

    With *trusted*, public keys (PEM files, or their content), only what one of them signed is loaded; without, what a
    key in the folder ``$BYOC_TRUSTED_KEYS`` signed, where that is set. The signature is looked at before all else.

    Raises ArtifactError for a damaged file, a newer schema, or a missing member, and UnavailableError for a missing
    device or another processor, before anything runs.
    """
    library = read_library(path, mapped, trusted_keys(trusted))
    for place, problem in library.problems().items():
        raise UnavailableError(f"{path}: {place} cannot run here: {problem}")
    if library.edited:
        raise ArtifactError(f"{path}: {library.edited}")
    library.threads = threads
    return library


def read_library(path: str | os.PathLike[str], mapped: bool = False, trusted: Sequence[bytes] | None = None) -> Library:
    """As :func:`load`, but without asking whether this machine can run it: to look into it."""
    artifact = read_artifact(Path(path), mapped, trusted)
    for needed in (GRAPH_MEMBER, WEIGHTS_MEMBER, REPORT_MEMBER, "metadata/constants.json"):
        if needed not in artifact.members:
            raise ArtifactError(f"{path}: member {needed} is missing; the file was not written by Library.save")
    try:
        return _assemble(artifact, str(path))
    except ArtifactError as error:
        raise error if str(path) in str(error) else type(error)(f"{path}: {error}") from error
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise ArtifactError(f"{path}: its members do not fit together ({error!r}); save the model again") from error


def _assemble(artifact: Artifact, where: str) -> Library:
    manifest, members = artifact.manifest, artifact.members
    told = read_manifest(manifest)
    constants = read_weights(members[WEIGHTS_MEMBER], where)
    root = MetadataModule.with_constants(members_below(members, "metadata"), constants)
    loaded = []
    for entry in told.modules:
        module = _module(entry, members_below(members, entry.path))
        root.import_module(module)
        loaded.append((module, entry.symbols))
    check_lost(root)
    check_parts(root, loaded)
    graph = checked_graph(read_json(members[GRAPH_MEMBER], GRAPH_MEMBER), GRAPH_MEMBER)
    report = mapping_of(read_json(members[REPORT_MEMBER], REPORT_MEMBER, constants=True), REPORT_MEMBER)
    library = Library(graph, root, [spec.name for spec in told.outputs], report, watch=artifact.watch)
    check_graph(graph, library._graph, root, told.inputs, told.outputs, GRAPH_MEMBER)
    library.edited = artifact.edited
    return library


def _module(entry: ModuleEntry, members: Members) -> Module:
    key = entry.type_key
    return load_or_lose(key, entry.symbols, members, lambda: module_class(key).load(members))


def load_module_tree(path: str | os.PathLike[str], trusted: Iterable[Key] | None = None) -> Module:
    """The modules that ``Module.export_library`` wrote; *trusted* as :func:`load` takes it.

    Raises ArtifactError for a damaged file or one of another kind, UnavailableError for what this machine lacks.
    """
    artifact = read_artifact(Path(path), trusted=trusted_keys(trusted))
    if not artifact.manifest.get("tree"):
        raise ArtifactError(f"{path}: the file holds no tree of modules; load it with byoc.runtime.load")
    try:
        root = _tree(artifact, read_tree(artifact.manifest), str(path))
    except ArtifactError as error:
        raise error if str(path) in str(error) else type(error)(f"{path}: {error}") from error
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise ArtifactError(f"{path}: its members do not fit together ({error!r}); save the modules again") from error
    covered = covered_symbols(root)
    for module in root.walk():
        problem = problem_of(module, covered)
        if problem:
            raise UnavailableError(f"{path}: the module {module.type_key} cannot run here: {problem}")
    if artifact.edited:
        raise ArtifactError(f"{path}: {artifact.edited}")
    return root


def _tree(artifact: Artifact, entries: Sequence[ModuleEntry], where: str) -> Module:
    below: list[list[Module]] = [[] for _ in entries]
    for index in range(len(entries) - 1, -1, -1):  # children stand behind their parents
        entry = entries[index]
        members = members_below(artifact.members, entry.path)
        arrays = read_weights(memoryview(members[ARRAYS_MEMBER]), where) if ARRAYS_MEMBER in members else {}
        module = _restored(entry, members, arrays, below[index][::-1])
        if isinstance(module, MetadataModule):
            check_parts(module, [(child, child.symbols) for child in module.imports])
        if index == 0:
            check_lost(module)
            return module
        below[entry.parent or 0].append(module)
    raise ArtifactError(f"{where}: the tree of modules is empty")


def _restored(entry: ModuleEntry, members: Members, arrays: Mapping[str, NDArray], below: Sequence[Module]) -> Module:
    key, symbols = entry.type_key, entry.symbols
    if below or arrays:
        return module_class(key).restore(members, arrays, below)
    return load_or_lose(key, symbols, members, lambda: module_class(key).restore(members, arrays, below))
