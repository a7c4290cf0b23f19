"""Trees of modules without a graph: what ``Module.export_library`` wrote, read again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from byoc.runtime.artefact.artifact import Artifact, read_artifact
from byoc.runtime.artefact.manifest import ModuleEntry, read_tree
from byoc.runtime.artefact.signing import Key, trusted_keys
from byoc.runtime.consistency import check_parts
from byoc.runtime.core.errors import ArtifactError, UnavailableError, UserError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.files.weights import read_weights
from byoc.runtime.modules.lost_module import (
    check_lost,
    class_for,
    covered_symbols,
    load_or_lose,
    naming_loader,
    naming_packages,
    problem_of,
)
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import ARRAYS_MEMBER, Members, Module, members_below


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
    def restore() -> Module:
        with naming_packages(entry.packages):
            kind = class_for(entry.type_key)
            with naming_loader(entry.type_key):
                return kind.restore(members, arrays, below)

    return restore() if below or arrays else load_or_lose(entry.type_key, entry.symbols, members, restore)
