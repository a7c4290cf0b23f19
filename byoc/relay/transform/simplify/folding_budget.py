"""How much may be folded: asked from types, before anything is computed.

*Growth*: a result over a megabyte is no larger than the constants of the model that it comes from, each counted once
whatever was folded in between, so that sums and concatenations of a constant with itself end there, and a mask made
from three numbers stays a call. *Total*: what one import or one pass folds together is at most :data:`TIMES` times
those constants and :data:`TOTAL_BYTES`. *Work*: at most :data:`OPERATIONS` arithmetic operations. All are counts, so
that the same model folds the same everywhere; what is not folded stays an operator. The option
``relay.FoldConstant.max_bytes`` of a PassContext replaces the total; 0 folds nothing over a kilobyte.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from weakref import WeakKeyDictionary

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.passes.pass_context import PassContext, register_config_option
from byoc.ir.types import TensorType, Type, dtype_bytes, tensor_types
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Tuple
from byoc.relay.traverse import children

MAX_BYTES = "relay.FoldConstant.max_bytes"
register_config_option(MAX_BYTES, int)

MAX_GROWTH_BYTES = 1 << 20
ALWAYS_BYTES = 1 << 10  # shapes, axes and bounds, without which operators are not even typed
TOTAL_BYTES = 1 << 28
TIMES = 8
OPERATIONS = 1 << 34


def type_bytes(ty: Type) -> float:
    """The bytes of a value of type *ty*; strings count one each, a dimension that is not known counts as 1."""
    if not isinstance(ty, TensorType):
        return sum(type_bytes(t) for t in tensor_types(ty))
    known = math.prod(d for d in ty.shape if isinstance(d, int))
    return known * (1 if ty.dtype == "string" else dtype_bytes(ty.dtype))


Origins = frozenset[tuple[int, int]]  # constants of the model: a number and its bytes
_ORIGINS: WeakKeyDictionary[Constant, Origins] = WeakKeyDictionary()
_COUNTER = itertools.count()


def origins(exprs: Iterable[RelayExpr]) -> Origins:
    """The constants of the model that the constants among *exprs*, and in their tuples, were made from."""
    found: set[tuple[int, int]] = set()
    stack = list(exprs)
    while stack:
        top = stack.pop()
        if isinstance(top, Constant):
            own = _ORIGINS.get(top)
            if own is None:
                own = _ORIGINS[top] = frozenset([(next(_COUNTER), int(type_bytes(infer_expr(top))))])
            found |= own
        elif isinstance(top, Tuple):
            stack.extend(top.fields)
    return frozenset(found)


def bytes_of(found: Origins) -> int:
    """How many bytes the constants *found* have together."""
    return sum(size for _, size in found)


def note_origins(results: Iterable[RelayExpr], found: Origins) -> None:
    """Keep that the constants among *results*, and in their tuples, were made from *found*."""
    stack = list(results)
    while stack:
        top = stack.pop()
        if isinstance(top, Constant):
            _ORIGINS[top] = found
        elif isinstance(top, Tuple):
            stack.extend(top.fields)


class FoldingBudget:
    """What one import or one pass may still fold; *given* tells the bytes of the model's constants, and is asked where
    that decides.
    """

    def __init__(self, given: Callable[[], float] = float):
        own = PassContext.current().config.get(MAX_BYTES)
        self._given = given if not isinstance(own, int) else float
        self._bytes = float(own) if isinstance(own, int) else float(TOTAL_BYTES)
        self._operations = float(OPERATIONS)

    def allows(self, calls: Sequence[Call], sources: Origins) -> bool:
        """Whether the typed *calls* on constants with these origins may be computed; takes it from the budget."""
        sizes = [type_bytes(call.checked_type) for call in calls]
        if max(sizes, default=0) > max(MAX_GROWTH_BYTES, bytes_of(sources)):
            return False
        total, operations = sum(sizes), sum(_operations(call) for call in calls)
        if total > max(ALWAYS_BYTES, self._bytes):
            self._bytes += TIMES * self._given()
            self._given = float
        if operations > self._operations or total > max(ALWAYS_BYTES, self._bytes):
            return False
        self._bytes -= total
        self._operations -= operations
        return True


def _operations(call: Call) -> float:
    op = call.op
    if not isinstance(op, Op) or op.operations is None:
        return 0
    types = [arg.checked_type for arg in call.args]
    flat = [t for ty in (call.checked_type, *types) for t in tensor_types(ty)]
    if not all(t.is_static for t in flat):
        return 0
    return op.operations(call.attrs, types, call.checked_type)


def calls_below(roots: Iterable[RelayExpr]) -> list[Call]:
    """The calls under *roots*, each once."""
    return [node for node in _below(roots) if isinstance(node, Call)]


def constants_below(roots: Iterable[RelayExpr]) -> list[Constant]:
    """The constants under *roots*, each once."""
    return [node for node in _below(roots) if isinstance(node, Constant)]


def _below(roots: Iterable[RelayExpr]) -> list[RelayExpr]:
    stack = list(roots)
    seen = set(stack)
    for node in stack:  # grows as it is read
        new = [child for child in children(node) if child not in seen]
        seen.update(new)
        stack.extend(new)
    return stack
