"""The modules of a library below one root, which owns their constants."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from byoc.runtime.core.function_work import FunctionWork
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import Module

if TYPE_CHECKING:
    from byoc.runtime.region.record import Fallback, Region


def assemble(
    modules: Sequence[Module],
    regions: Mapping[str, Region] | None = None,
    fallbacks: Sequence[Fallback] = (),
    work: Mapping[str, FunctionWork] | None = None,
) -> MetadataModule:
    """The modules below one metadata module, which owns each distinct constant once, whatever it is called.

    *regions* are the symbols that backends compiled, *fallbacks* those that they could not; *work* says what functions
    compute.
    """
    stored: dict[str, NDArray] = {}
    keys: dict[tuple[str, str, tuple[int, ...]], str] = {}
    needs: dict[str, list[str]] = {}
    for module in modules:
        arrays = module.constant_arrays
        for symbol, names in module.constants().items():
            needs[symbol] = []
            for name in names:
                array = arrays[name]
                content = (hashlib.sha256(memoryview(array.numpy().tobytes())).hexdigest(), array.dtype, array.shape)
                key = keys.setdefault(content, name)
                stored.setdefault(key, array)
                needs[symbol].append(key)
    told = {
        symbol: _with_constants(region, stored, needs.get(symbol, ())) for symbol, region in (regions or {}).items()
    }
    root = MetadataModule(stored, needs, told, fallbacks, work)
    for module in modules:
        root.import_module(module)
    return root


def _with_constants(region: Region, arrays: Mapping[str, NDArray], names: Sequence[str]) -> Region:
    """*region* with the constants in its signature, to which those of a loaded file are held."""
    if region.signature is None:
        return region
    specs = tuple(TensorSpec(name, arrays[name].shape, arrays[name].dtype) for name in names)
    return replace(region, signature=replace(region.signature, constants=specs))
