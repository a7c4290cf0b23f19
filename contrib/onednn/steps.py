"""What a step of a program is, and the table of functions that build one of primitives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from byoc.contrib.onednn.building import Builder, DnnlValue
from byoc.contrib.region_program import Operation


@dataclass(frozen=True)
class Behind:
    """What runs on a product's result in the same primitive: an operator, and the other tensor that it reads."""

    operator: str
    attributes: Mapping[str, Any]
    operand: DnnlValue | None = None


@dataclass(frozen=True)
class DnnlStep(Operation):
    """One operator, with what runs behind it in the same primitive."""

    behind: Sequence[Behind] = field(default=())


Build = Callable[..., Any]  # (builder, step, *values) -> a value, or a list of them for several results
BUILDERS: dict[str, Build] = {}
PRODUCTS: list[str] = []
"""The operators whose primitives are products, and take a bias, a sum and functions behind them."""


def builds(*names: str, takes_posts: bool = False) -> Callable[[Build], Build]:
    """Put a function into the table, for operators (or composites) of these *names*.

    *takes_posts*: they are products, of which the function builds what stands behind with them.
    """

    def register(build: Build) -> Build:
        for name in names:
            assert name not in BUILDERS, name
            BUILDERS[name] = build
            PRODUCTS.extend([name] if takes_posts else [])
        return build

    return register


def build(builder: Builder, step: DnnlStep, values: Sequence[DnnlValue]) -> list[DnnlValue]:
    """The values that *step* gives. Raises Unimplemented where oneDNN has no primitive for it."""
    if not any(0 not in shape for shape in step.shapes):  # nothing to compute
        return [builder.plain(shape, dtype) for shape, dtype in zip(step.shapes, step.dtypes, strict=True)]
    made = BUILDERS[step.operator](builder, step, *values)
    return list(made) if isinstance(made, (list, tuple)) else [made]
