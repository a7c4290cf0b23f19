"""Reading an artefact: the library that :meth:`byoc.runtime.library.Library.save` wrote.

Nothing of a file is used before it was checked: its parts one by one, then against each other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from byoc.runtime.artefact.artifact import read_artifact
from byoc.runtime.artefact.manifest import Manifest, ModuleEntry, read_manifest
from byoc.runtime.artefact.signing import Key, trusted_keys
from byoc.runtime.consistency import check_graph, check_parts
from byoc.runtime.content import DEFAULTS_MEMBER, GRAPH_MEMBER, REPORT_MEMBER, WEIGHTS_MEMBER
from byoc.runtime.core.errors import ArtifactError, InputError, UnavailableError, UserError
from byoc.runtime.core.strict_json import mapping_of, read_json
from byoc.runtime.files.file_memory import FileWatch
from byoc.runtime.files.weights import read_weights
from byoc.runtime.graph.graph_check import checked_graph
from byoc.runtime.library import Library
from byoc.runtime.modules.lost_module import check_lost, class_for, load_or_lose, naming_loader, naming_packages
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import Members, Module, members_below


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

    It needs no vendor's package: ``Library.problems`` lists modules that cannot be loaded.
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
    manifest: Manifest, members: Members, where: str, bears_lost: bool = False, watch: FileWatch | None = None
) -> Library:
    """The library whose :meth:`Library.content` is *manifest* and *members*.

    Raises ArtifactError, which names *where*, for a member that is missing or does not fit the others.
    """
    for needed in (GRAPH_MEMBER, WEIGHTS_MEMBER, REPORT_MEMBER, "metadata/constants.json"):
        if needed not in members:
            raise ArtifactError(f"{where}: member {needed} is missing; the file was not written by Library.save")
    constants = read_weights(memoryview(members[WEIGHTS_MEMBER]), where)
    root = MetadataModule.with_constants(members_below(members, "metadata"), constants)
    loaded = []
    for entry in manifest.modules:
        module = _module(entry, members_below(members, entry.path))
        root.import_module(module)
        loaded.append((module, entry.symbols))
    check_lost(root, bears_lost)
    check_parts(root, loaded)
    graph = checked_graph(read_json(members[GRAPH_MEMBER], GRAPH_MEMBER), GRAPH_MEMBER)
    report = mapping_of(read_json(members[REPORT_MEMBER], REPORT_MEMBER, constants=True), REPORT_MEMBER)
    library = Library(graph, root, [spec.name for spec in manifest.outputs], report, watch=watch)
    check_graph(graph, library._graph, root, manifest.inputs, manifest.outputs, GRAPH_MEMBER)
    if DEFAULTS_MEMBER in members:
        defaults = read_weights(memoryview(members[DEFAULTS_MEMBER]), f"{where}: {DEFAULTS_MEMBER}")
        try:
            library._graph.set_defaults({name: array.numpy() for name, array in defaults.items()})
        except InputError as error:
            raise ArtifactError(f"{where}: {DEFAULTS_MEMBER} does not fit the graph: {error}") from error
    return library


def _of_class(kind: type[Module], loaded: object) -> Module:
    """What a vendor's ``load`` gave. Raises UnavailableError for what is no module."""
    if isinstance(loaded, Module):
        return loaded
    raise UnavailableError(
        f"{kind.__module__}.{kind.__qualname__}.load gave a {type(loaded).__name__}, expected the module, as in return "
        "cls(...)"
    )


def _module(entry: ModuleEntry, members: Members) -> Module:
    def load() -> Module:
        with naming_packages(entry.packages):
            kind = class_for(entry.type_key)
            with naming_loader(entry.type_key):
                return _of_class(kind, kind.load(members))

    return load_or_lose(entry.type_key, entry.symbols, members, load)
