"""Which calls become one kernel, and the bytes that each kernel reads and writes.

What a generator of fused code puts together runs as one kernel: between its calls nothing goes through memory. Nothing
here decides which these are: the generator's own passes, a *grouping*, are run on the calls. So a kernel has the calls
that will be there (in the host's order of axes, with views where they are needed), and each of them is put to the
account of one of the calls that were given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.passes.pass_context import PassContext
from byoc.partition.costs.model import HOST
from byoc.partition.costs.share import Origins, function_of, producers, read_by
from byoc.partition.costs.work import Work, WorkKind, size, work_of
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.fuse.fuse_ops import fuse_body
from byoc.relay.transform.fuse.join_groups import is_group
from byoc.relay.transform.simplify.fold_constant import transposed_by_views
from byoc.relay.transform.stages import host_groups
from byoc.relay.traverse import post_order

Grouping = Callable[[Function], Function]  # a typed function -> the same with a ``Primitive`` function for each kernel
WorkOf = Callable[[Call], Work]


@dataclass(frozen=True)
class KernelStep:
    """A call in a kernel: on whose account it is, its work, the bytes that it reads from outside and of constants, and
    those it gives away.
    """

    call: Call
    unit: Call
    work: Work
    reads: int
    constants: int
    writes: int


@dataclass(frozen=True)
class PricedKernel:
    """Steps in their order; *given* has the constants that parameters in them stand for."""

    steps: tuple[KernelStep, ...]
    given: Mapping[RelayExpr, Constant] = field(default_factory=dict)

    @property
    def stored(self) -> list[Call]:
        """The calls whose results it gives away."""
        return [step.call for step in self.steps if step.writes]


def grouping_of(target: str, fuses: bool = True) -> Grouping | None:
    """How kernels are made on *target*, of whose generator it is known whether it *fuses*: None for each call alone."""
    if target == HOST:
        return host_groups
    return fuse_body if fuses else None


def kernels_of(
    calls: Sequence[Call],
    grouping: Grouping | None = host_groups,
    leaving: Collection[RelayExpr] = (),
    work: WorkOf = work_of,
) -> list[PricedKernel]:
    """The kernels of the operators among *calls*, which are in topological order and have types.

    Calls of functions among them are no kernels here, and stand between the others. *leaving* are those whose results
    something else reads as well; *work* says what a call has to do.
    """
    if grouping is None:
        return [one_kernel([call], work) for call in calls if isinstance(call.op, Op)]
    if not any(isinstance(call.op, Op) for call in calls):
        return []
    if len(calls) == 1 and grouping is fuse_body:
        return [one_kernel(calls, work)]
    function = infer_function(function_of(calls, leaving))
    with _unwatched(), transposed_by_views():
        grouped = grouping(function)
    groups = [as_call(node) for node in post_order(grouped.body, fusion_children) if is_group(node)]
    bodies = [as_function(group.op).body for group in groups]
    inner = [[node for node in post_order(body) if isinstance(node, Call)] for body in bodies]
    origins = Origins(calls, [call for members in inner for call in members])
    return [
        _kernel(members, producers(body), _given(group), functools.partial(origins.payer, near=group.span), work)
        for group, body, members in zip(groups, bodies, inner, strict=True)
    ]


def one_kernel(calls: Sequence[Call], work: WorkOf = work_of) -> PricedKernel:
    """*calls* of operators as one kernel: those of a fused function."""
    read = read_by(calls)
    return _kernel(calls, [c for c in calls if c not in read], {}, lambda call: call, work)


def _unwatched() -> PassContext:
    """The current context without its instruments: nobody asked to see what is only tried."""
    ctx = PassContext.current()
    return PassContext(ctx.opt_level, ctx.required_pass, ctx.disabled_pass, (), ctx.config)


def _given(group: Call) -> dict[RelayExpr, Constant]:
    """The constants that the call of a fused function gives to its parameters."""
    pairs = zip(as_function(group.op).params, group.args, strict=True)
    return {param: value for param, value in pairs if isinstance(value, Constant)}


def _kernel(
    calls: Sequence[Call],
    results: Iterable[RelayExpr],
    given: Mapping[RelayExpr, Constant],
    payer: Callable[[Call], Call],
    work: WorkOf,
) -> PricedKernel:
    """The kernel of *calls*, of which *results* are stored."""
    inside, stored = set(calls), set(results)
    seen: set[RelayExpr] = set()
    steps = []
    for call in calls:
        reads = constants = 0
        for node in dict.fromkeys(p for arg in call.args for p in producers(arg)):
            if node in inside or node in seen:
                continue
            seen.add(node)
            if isinstance(given.get(node, node), Constant):
                constants += size(node.checked_type)
            else:
                reads += size(node.checked_type)
        result, done = size(call.checked_type), work(call)
        if done.kind is WorkKind.MOVE:  # a slice or a selection reads what it gives
            reads, constants = min(reads, result), min(constants, result)
        steps.append(KernelStep(call, payer(call), done, reads, constants, result if call in stored else 0))
    return PricedKernel(tuple(steps), given)
