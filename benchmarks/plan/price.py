"""The price of any cut by a cost model, however it was chosen: what ``Plan.total`` says of a plan by cost alone.

The host's operators, the regions with their launches, and what passes between: each result of a region comes to the
host once, each input of a region goes up once, also where another region of the same device made it.
"""

from __future__ import annotations

from byoc.ir.module import IRModule
from byoc.ir.types import Type, tensor_types
from byoc.partition.costs import CostModel, Estimate, total
from byoc.partition.costs.model import HOST, unit_calls
from byoc.partition.costs.work import boundary
from byoc.partition.plan.plan import Plan
from byoc.relay.expr import Function


def price(plan: Plan, mod: IRModule, costs: CostModel) -> float:
    """Seconds of the simplified *mod* as *plan* cuts it, by *costs*. Raises PartitionError where they have none."""
    cut = plan.apply(mod)
    at_home = unit_calls(cut["main"])  # type: ignore[arg-type]
    parts = list(costs.units(at_home, HOST))
    for function in cut.functions.values():
        if isinstance(function, Function) and "Compiler" in function.attrs:
            parts += [*costs.units(unit_calls(function), target_of(function)), *around(function, costs)]
    return total(parts).seconds


def target_of(region: Function) -> str:
    """The backend that a region was given to."""
    return str(region.attrs["Compiler"])


def around(region: Function, costs: CostModel) -> list[Estimate]:
    """What a call of *region* costs beside its work: its launch, its inputs up and its results down."""
    target = target_of(region)
    up = [costs.transfer(size, HOST, target) for p in region.params for size in _sizes(p.checked_type)]
    down = [costs.transfer(size, target, HOST) for size in _sizes(region.body.checked_type)]
    return [costs.launch(target), *up, *down]


def _sizes(ty: Type) -> list[int]:
    return [boundary("", t).bytes for t in tensor_types(ty)]
