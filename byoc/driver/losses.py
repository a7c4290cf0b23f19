"""Losing a target: what fails while a region is compiled, and which targets are not on this machine.

A :class:`Loss` is what the report keeps of it. Whether the plan is then made again is the user's to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TypeVar

from byoc.contract.registration import get_backend
from byoc.contract.verdict import Reason
from byoc.errors import PartitionError, UserError
from byoc.ir.expr import GlobalVar
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.partition.costs.model import HOST_BACKEND
from byoc.partition.plan.plan import Plan
from byoc.relay.expr import Call, Function
from byoc.relay.traverse import post_order
from byoc.runtime.core.errors import HOST_ADVICE
from byoc.runtime.kernels import KERNELS

COMPILE, MEMORY, DEVICE = "compile", "memory", "device"
CAUSE = "byoc_cause"  # of an error about a region: what it says without the region
E = TypeVar("E", bound=Exception)


@dataclass(frozen=True)
class Loss:
    """A target that was lost: where (*stage*), by which region and its nodes, and the error.

    *cause* is what *error* says without its region, for where that stands beside it.
    """

    target: str
    stage: str
    error: str
    region: str = ""
    nodes: tuple[str, ...] = ()
    cause: str = ""

    @property
    def reason(self) -> Reason:
        """What the verdicts of the plan without it say."""
        text = {COMPILE: "its compiler failed", MEMORY: "it ran out of memory", DEVICE: "it is not on this machine"}
        return Reason(f"lost_{self.stage}", text[self.stage], self.error)

    def to_json(self) -> dict[str, object]:
        """The loss as values that ``json.dumps`` takes."""
        return {key: value for key, value in asdict(self).items() if key != "cause"}


class RegionLostError(Exception):
    """A region that could not be compiled; *error* is what was raised. *host_can* compute it."""

    def __init__(self, loss: Loss, error: Exception, host_can: bool):
        super().__init__(loss.error)
        self.loss, self.error, self.host_can = loss, error, host_can

    def for_user(self, fallback: bool) -> Exception:
        """What was raised; without *fallback*, that it would help where it would."""
        return with_advice(self.error) if self.host_can and not fallback else self.error


def with_advice(error: Exception) -> Exception:
    """*error* itself, whose text then says that the host can compute the region; an InternalError stays as it is."""
    if isinstance(error, UserError):
        error.args = (f"{error}; {HOST_ADVICE}", *error.args[1:])
    return error


def host_can(region: Function) -> bool:
    """Whether the host has kernels for all that is in the region, and it is not its own."""
    calls = [n for n in post_order(region.body) if isinstance(n, Call) and isinstance(n.op, Op)]
    is_hosts = region.attrs.get("Compiler") == HOST_BACKEND
    return not is_hosts and all(isinstance(call.op, Op) and call.op.kernel in KERNELS for call in calls)


def because(error: E, cause: str) -> E:
    """*error*, which names its region, with what it says beside that."""
    vars(error)[CAUSE] = cause
    return error


@contextmanager
def lost(var: GlobalVar, region: Function) -> Iterator[None]:
    """Any error inside as a :class:`RegionLostError` of *region*, which is called *var*."""
    try:
        yield
    except Exception as error:
        stage = MEMORY if isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError) else COMPILE
        text = str(error) or type(error).__name__
        target = str(region.attrs["Compiler"])
        cause = str(vars(error).get(CAUSE, text))
        loss = Loss(target, stage, text, var.name_hint, tuple(span_names(region.span)), cause)
        raise RegionLostError(loss, error, host_can(region)) from error


def unavailable(plan: Plan) -> Iterator[Loss]:
    """The targets of *plan*'s regions that cannot work on this machine."""
    from byoc.contract.checks import why_unavailable

    for target in dict.fromkeys(region.target for region in plan.regions):
        try:
            problem = why_unavailable(get_backend(target))
        except PartitionError as error:  # a backend that cannot say whether it works does not
            problem = str(error)
        if problem is not None:
            nodes = tuple(n for r in plan.regions if r.target == target for n in r.nodes)
            yield Loss(target, DEVICE, problem, "", nodes)
