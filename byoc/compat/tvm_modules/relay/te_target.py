"""Integrations whose composites are lowered by tensor expressions (cuBLAS, cuDNN): they register, and partition.

Lowering calls the vendor's library from a schedule of TVM's, which byoc does not have; so the code generator that
:func:`relay_to_runtime` gives says so when a region comes to it. Source: ``relay.op.contrib.te_target``.
"""

from __future__ import annotations

from collections.abc import Callable

from byoc.compat.tvm.below import NotHereError
from byoc.relay.expr import Call, Function
from byoc.relay.traverse import post_order

Lowering = Callable[..., object]
# composite -> what lowers it
LOWERINGS: dict[str, Lowering] = {}


def lower_composite(comp_name: str) -> Callable[[Lowering], Lowering]:
    """Register, as a decorator, what lowers the composite *comp_name*. Source: ``te_target.lower_composite``."""

    def register(lower: Lowering) -> Lowering:
        LOWERINGS[comp_name] = lower
        return lower

    return register


def relay_to_runtime(target: object) -> Callable[[Function], object]:
    """A code generator for regions of one composite. Source: ``te_target.relay_to_runtime``.

    It raises NotHereError for every region, and names what it would have to lower.
    """

    def compile_region(partition: Function) -> object:
        called = [n.op for n in post_order(partition.body) if isinstance(n, Call) and isinstance(n.op, Function)]
        names = ", ".join(str(f.attrs["Composite"]) for f in called if "Composite" in f.attrs) or "a region"
        raise NotHereError(
            f"{names} is lowered by tensor expressions of TVM for {target}, which byoc does not have: register another "
            "code generator for its compiler, as relay.ext.<name>"
        )

    return compile_region
