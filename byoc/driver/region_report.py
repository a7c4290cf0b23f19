"""What the report of a compiled model says of its regions: the bytes of each, and what backends compute otherwise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from byoc.contract.registration import get_backend
from byoc.errors import CompileError
from byoc.runtime.core.errors import vendors_text
from byoc.runtime.core.signature import TensorSpec, item_bytes
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import Module


def region_memory(root: MetadataModule) -> list[dict[str, object]]:
    """The bytes of each region, for the report: of a run's inputs and outputs (None where a size is free), of its
    constants, and what its module says beside.
    """
    rows: list[dict[str, object]] = []
    for symbol, region in root.regions.items():
        owner, signature = root.owner(symbol), region.signature
        entry: dict[str, object] = {"region": symbol, "target": region.target}
        if signature is not None:
            entry.update(inputs=_bytes(signature.inputs), outputs=_bytes(signature.outputs))
            entry["constants"] = _bytes(signature.constants)
        if owner is not None:
            entry.update(_sizes(owner, symbol, region.target))
            notes = [str(note) for note in owner.region_notes(symbol)]
            if notes:
                entry["region_notes"] = notes
        rows.append(entry)
    return rows


def _sizes(module: Module, symbol: str, target: str) -> dict[str, int]:
    """What ``Module.memory`` of a vendor reports. Raises CompileError for what are no bytes by names."""
    where = f"backend {target!r}: memory({symbol!r}) of its module {type(module).__name__}"
    expected = 'expected bytes by what they are for, as in {"scratch": 4096}'
    try:
        found: object = module.memory(symbol)
    except Exception as error:  # whatever a vendor's code raises
        raise CompileError(f"{where} failed: {vendors_text(error)}, {expected}") from error
    if isinstance(found, Mapping) and all(isinstance(size, (int, np.integer)) for size in found.values()):
        return {str(name): int(size) for name, size in found.items()}
    raise CompileError(f"{where} gave {found!r}, {expected}")


def region_deviations(root: MetadataModule) -> dict[str, list[str]]:
    """What the backends of the regions declare to compute otherwise than ONNX, by target; those that declare nothing
    are left out.
    """
    targets = dict.fromkeys(region.target for region in root.regions.values())
    found = {target: [str(d) for d in get_backend(target).deviations] for target in targets}
    return {target: texts for target, texts in found.items() if texts}


def _bytes(specs: Sequence[TensorSpec]) -> int | None:
    sizes = [d for spec in specs for d in spec.shape]
    if not all(isinstance(d, int) for d in sizes):
        return None
    return sum(math.prod(spec.concrete_shape({})) * item_bytes(spec.dtype, spec.name) for spec in specs)
