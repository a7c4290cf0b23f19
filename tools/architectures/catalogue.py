"""Which architectures there are: a class of ``transformers`` for each kind of configuration it knows."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fnmatch import fnmatch

from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

BASE = "MODEL_MAPPING_NAMES"


@dataclass(frozen=True)
class Architecture:
    """One class of models: the name of its kind of configuration (``bert``) and the class (``BertModel``)."""

    name: str
    model: str


def architectures() -> list[Architecture]:
    """Each class of models once, by the first kind of configuration that has it: the base model where there is one,
    else the first model for a task."""
    tasks = sorted(name for name in vars(modeling_auto) if name.startswith("MODEL_FOR") and name.endswith("_NAMES"))
    found: dict[str, Architecture] = {}
    for table in (BASE, *tasks):
        known = {a.name for a in found.values()}
        for kind, models in getattr(modeling_auto, table).items():
            model = models if isinstance(models, str) else models[0]
            if kind in CONFIG_MAPPING_NAMES and kind not in known:
                found.setdefault(model, Architecture(kind, model))
    return list(found.values())


def chosen(patterns: list[str], seed: int | None = None) -> list[Architecture]:
    """The architectures whose name or class matches one of *patterns* (all without one), shuffled by *seed*."""
    of = [
        a for a in architectures() if not patterns or any(fnmatch(a.name, p) or fnmatch(a.model, p) for p in patterns)
    ]
    if seed is not None:
        random.Random(seed).shuffle(of)
    return of
