"""The modules of a library below one root, which owns their constants."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import Module
from byoc.runtime.region.record import Region


def assemble(modules: Sequence[Module], regions: Mapping[str, Region] | None = None) -> MetadataModule:
    """The modules below one metadata module, which owns each distinct constant once, whatever it is called.

    *regions* are the symbols that backends compiled.
    """
    stored: dict[str, NDArray] = {}
    keys: dict[tuple[str, str, tuple[int, ...]], str] = {}
    needs: dict[str, list[str]] = {}
    for module in modules:
        arrays: Mapping[str, NDArray] = getattr(module, "constant_arrays", {})
        for symbol, names in module.constants().items():
            needs[symbol] = []
            for name in names:
                array = arrays[name]
                content = (hashlib.sha256(memoryview(array.numpy().tobytes())).hexdigest(), array.dtype, array.shape)
                key = keys.setdefault(content, name)
                stored.setdefault(key, array)
                needs[symbol].append(key)
    root = MetadataModule(stored, needs, regions)
    for module in modules:
        root.import_module(module)
    return root
