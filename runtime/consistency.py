"""Whether the parts of an artefact fit each other: graph, modules, constants, the whole program.

Each part was read by itself before. Here every number of one that another relies on is compared, so that nothing that
runs later, native code least of all, meets an array that is not what it expects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.dso.whole_program import WholeProgram
from byoc.runtime.graph.graph import RESHAPE, Graph
from byoc.runtime.graph.graph_check import check_calls
from byoc.runtime.modules.lost_module import LostModule
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import Module


def check_parts(root: MetadataModule, modules: Sequence[tuple[Module, Sequence[str]]]) -> None:
    """Raises ArtifactError where a module has not the symbols that are listed for it, or constants do not fit."""
    for module, symbols in modules:
        if not isinstance(module, LostModule) and list(module.symbols) != list(symbols):
            raise ArtifactError(
                f"the manifest lists {', '.join(symbols) or 'nothing'} for a module of type {module.type_key!r}, "
                f"which has {', '.join(module.symbols) or 'nothing'}"
            )
    unknown = [symbol for symbol in (*root.needs, *root.regions) if root.owner(symbol) is None]
    if unknown:
        raise ArtifactError(f"constants or nodes are listed for {unknown[0]!r}, which no module has")
    used = {name for names in root.needs.values() for name in names}
    extra = [name for name in root.constant_arrays if name not in used]
    if extra:
        raise ArtifactError(f"the constant {extra[0]!r} is one that nothing needs")
    for symbol, region in root.regions.items():
        if region.signature is not None:
            _check_region(symbol, region.signature, root)
    for module, symbols in modules:
        if not isinstance(module, LostModule):
            check_constants(module, symbols, root.needs, root.constant_arrays)


def _check_region(symbol: str, signature: Signature, root: MetadataModule) -> None:
    """Raises ArtifactError unless the constants listed for a region are as many and as its signature says."""
    names = root.needs.get(symbol, ())
    if len(names) != len(signature.constants):
        raise ArtifactError(
            f"region {symbol} takes {len(signature.constants)} constants, and {len(names)} are listed for it"
        )
    for name, spec in zip(names, signature.constants, strict=True):
        array = root.constant_arrays[name]
        if (tuple(array.shape), array.dtype) != (spec.shape, spec.dtype):
            raise ArtifactError(
                f"the constant {name!r} is {array.dtype}{list(array.shape)}, and region {symbol} takes "
                f"{spec.dtype}{spec}: compile the model again"
            )


def check_constants(
    module: Module, symbols: Sequence[str], needs: Mapping[str, Sequence[str]], arrays: Mapping[str, NDArray]
) -> None:
    """Raises ArtifactError unless each symbol of *module* is given as many constants as it takes, each as it says."""
    check_counts(module, symbols, needs)
    for symbol in symbols:
        names = needs.get(symbol, ())
        for name, spec in zip(names, module.constant_specs(symbol) or (), strict=False):
            array = arrays[name]
            if (tuple(array.shape), array.dtype) != (spec.shape, spec.dtype):
                raise ArtifactError(
                    f"the constant {name!r} is {array.dtype}{list(array.shape)}, and {symbol} takes {spec.dtype}{spec}"
                )


def check_counts(module: Module, symbols: Sequence[str], needs: Mapping[str, Sequence[str]]) -> None:
    """Raises ArtifactError unless as many constants are listed for each symbol of *module* as it takes."""
    wanted = module.constants()
    for symbol in symbols:
        count, listed = len(wanted.get(symbol, ())), len(needs.get(symbol, ()))
        if count != listed:
            raise ArtifactError(f"{symbol} takes {count} constants, and {listed} are listed for it")


def check_graph(
    data: Mapping[str, object],
    graph: Graph,
    root: MetadataModule,
    stated_inputs: Sequence[TensorSpec],
    stated_outputs: Sequence[TensorSpec],
    where: str,
) -> None:
    """Raises ArtifactError where the graph calls what there is not, or has other tensors than what it calls."""
    missing = [n for n in graph.calls if n.function != RESHAPE and root.owner(n.function) is None]
    if missing:
        raise ArtifactError(f"{where}: node {missing[0].name} calls {missing[0].function!r}, which no module has")
    check_calls(data, signatures_of(root), where)
    inputs = [graph.specs[node.outputs[0]] for node in graph.inputs]
    heads = [graph.specs[head] for head in graph.heads]
    for specs, found, what in ((stated_inputs, inputs, "inputs"), (stated_outputs, heads, "outputs")):
        if [(s.dtype, s.shape) for s in specs] != [(s.dtype, s.shape) for s in found]:
            raise ArtifactError(f"the {what} in the manifest are not those of the graph")
    for module in root.imports:
        whole = getattr(module, "whole", None)
        if isinstance(whole, WholeProgram):
            _check_whole(whole, inputs, heads, root)


def signatures_of(root: MetadataModule) -> dict[str, Signature]:
    """What is known of the functions of a library, by symbol."""
    found = {symbol: region.signature for symbol, region in root.regions.items() if region.signature is not None}
    for module in root.imports:
        signatures = getattr(module, "signatures", None)
        if isinstance(signatures, Mapping):
            found.update({s: sig for s, sig in signatures.items() if isinstance(sig, Signature)})
    return found


def _check_whole(
    whole: WholeProgram, inputs: Sequence[TensorSpec], heads: Sequence[TensorSpec], root: MetadataModule
) -> None:
    for specs, found, what in ((whole.inputs, inputs, "inputs"), (whole.outputs, heads, "outputs")):
        if [(s.dtype, s.shape) for s in specs] != [(s.dtype, s.shape) for s in found]:
            raise ArtifactError(f"the {what} of the whole program are not those of the graph")
    missing = [e.function for e in whole.externals if root.owner(e.function) is None]
    if missing:
        raise ArtifactError(f"the whole program calls {missing[0]!r}, which no module has")
