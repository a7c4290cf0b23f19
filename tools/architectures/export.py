"""A tiny model as ONNX files, with fixed and with free sizes, and inputs for each."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import torch

from .build import Tiny, tiny
from .catalogue import Architecture
from .inputs import EXPORTED, OTHERS, Sizes

OPSET = 18
ATTENTIONS = ("", "eager")  # the model's own first


def export(architecture: Architecture, folder: Path) -> dict[str, str]:
    """Write ``fixed.onnx``, ``free.onnx`` and their inputs into *folder*; what went wrong, by the file's name.

    Raises:
        NotMade: if there is no tiny model to export.
    """
    folder.mkdir(parents=True, exist_ok=True)
    of = tiny(architecture)
    failures = {}
    for name, attempts in (("fixed", [frozenset[str]()]), ("free", attempts_of(of.free))):
        for free, attention in itertools.product(attempts, ATTENTIONS):
            try:
                if attention:
                    of.model.inner.set_attn_implementation(attention)
                write(of, free, folder / f"{name}.onnx")
                save_inputs(of, free, folder / name)
                (folder / f"{name}.json").write_text(json.dumps(sorted(free)))
                failures.pop(name, None)
                break
            except Exception as err:
                failures[name] = " ".join(f"{type(err.__cause__ or err).__name__}: {err.__cause__ or err}".split())[
                    :400
                ]
    if not of.free:
        failures["free"] = "every size is fixed by the architecture"
    return failures


def attempts_of(free: frozenset[str]) -> list[frozenset[str]]:
    """Which dimensions to leave free: all, then the batch alone, then all but the batch."""
    sets = [free, free & {"batch"}, free - {"batch"}]
    return [s for i, s in enumerate(sets) if s and s not in sets[:i]]


def write(of: Tiny, free: frozenset[str], path: Path) -> None:
    """Export with the dimensions *free* by name, every other one fixed."""
    shapes = tuple({i: d for i, d in enumerate(kind.dims) if d in free} for kind in of.kinds.values())
    torch.onnx.export(
        of.model,
        of.arrays(EXPORTED),
        path,
        input_names=list(of.kinds),
        dynamic_shapes=(shapes,) if free else None,
        opset_version=OPSET,
        dynamo=True,
        external_data=False,
        verbose=False,
    )


def save_inputs(of: Tiny, free: frozenset[str], stem: Path) -> None:
    """Inputs as ``stem.0.npz`` …: of the exported sizes, and of others where sizes are free."""
    for i, sizes in enumerate([EXPORTED, *(others(free) if free else [])]):
        arrays = of.arrays(sizes)
        np.savez(f"{stem}.{i}.npz", **{k: a.numpy() for k, a in zip(of.kinds, arrays, strict=True)})


def others(free: frozenset[str]) -> list[Sizes]:
    """Other sizes of the dimensions that are free."""
    return [{k: sizes[k] if k in free else v for k, v in EXPORTED.items()} for sizes in OTHERS]
