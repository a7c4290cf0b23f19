"""What the manifest of an artefact says of its modules, inputs and outputs, checked when it is read."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.signature import TensorSpec, symbol_of
from byoc.runtime.core.strict_json import at, number_of, numbered, object_of, text_of, texts_of

_ALWAYS = ("format", "schema_version", "json_graph_version", "members", "requires")
_TREE_DEPTH = 64


@dataclass(frozen=True)
class ModuleEntry:
    """A module: by what it is loaded, the functions that it has, where its members lie, below which it hangs.

    ``packages`` are those that brought it, as ``acme-byoc 1.2``.
    """

    type_key: str
    symbols: tuple[str, ...]
    path: str
    parent: int | None = None
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """A library's: its modules, and what the model takes and gives."""

    modules: tuple[ModuleEntry, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


def read_manifest(data: Mapping[str, object]) -> Manifest:
    """The manifest of a library. Raises ArtifactError for another, or a damaged one."""
    fields = object_of(data, "manifest.json", (*_ALWAYS, "modules", "inputs", "outputs", "producer"), ("seal",))
    producer = object_of(fields["producer"], "manifest.json.producer", ("name", "version"))
    texts_of(list(producer.values()), "manifest.json.producer")
    texts_of(fields["requires"], "manifest.json.requires")
    return _library(fields, "manifest.json")


def read_parts(data: object, where: str) -> Manifest:
    """What is recorded of a library inside of another one. Raises ArtifactError for a damaged one."""
    return _library(object_of(data, where, ("modules", "inputs", "outputs")), where)


def _library(fields: Mapping[str, object], where: str) -> Manifest:
    inputs, outputs = (
        tuple(TensorSpec.from_json(s, place) for place, s in numbered(fields, key, where))
        for key in ("inputs", "outputs")
    )
    modules = tuple(_entry(e, place, ()) for place, e in numbered(fields, "modules", where))
    _check_paths(modules)
    return Manifest(modules, inputs, outputs)


def read_tree(data: Mapping[str, object]) -> tuple[ModuleEntry, ...]:
    """The modules of an exported tree, parents first. Raises ArtifactError for a damaged one."""
    fields = object_of(data, "manifest.json", (*_ALWAYS, "kind", "tree"), ("seal",))
    texts_of(fields["requires"], "manifest.json.requires")
    entries = tuple(_entry(e, place, ("parent",)) for place, e in numbered(fields, "tree", "manifest.json"))
    depths: list[int] = []
    for index, entry in enumerate(entries):
        if (entry.parent is None) != (index == 0) or (entry.parent or 0) >= max(index, 1):
            raise ArtifactError(f"manifest.json.tree[{index}].parent: expected a module before it")
        depths.append(0 if entry.parent is None else depths[entry.parent] + 1)
    if max(depths, default=0) > _TREE_DEPTH:
        raise ArtifactError(f"manifest.json.tree: modules hang deeper than {_TREE_DEPTH} levels")
    _check_paths(entries)
    return entries


def _entry(data: object, where: str, more: tuple[str, ...]) -> ModuleEntry:
    fields = object_of(data, where, ("type_key", "symbols", "path", *more), ("packages",))
    symbols = tuple(symbol_of(s, place) for place, s in numbered(fields, "symbols", where))
    parent = fields.get("parent")
    return ModuleEntry(
        text_of(fields["type_key"], at(where, "type_key")),
        symbols,
        text_of(fields["path"], at(where, "path")),
        None if parent is None else number_of(parent, at(where, "parent")),
        tuple(texts_of(fields.get("packages", []), at(where, "packages"))),
    )


def _check_paths(entries: tuple[ModuleEntry, ...]) -> None:
    """Raises ArtifactError where two modules share members."""
    paths = sorted(f"{entry.path}/" for entry in entries)
    if any(after.startswith(path) for path, after in itertools.pairwise(paths)) or "/" in paths:
        raise ArtifactError("manifest.json: two modules lie in one place")
