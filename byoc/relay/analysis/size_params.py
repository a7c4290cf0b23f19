"""Which sizes an expression is over, and from which parameters' shapes they are known.

A value may be over a size that nothing it is computed from has: ``match_shape`` and shapes that are data name sizes of
the model's inputs. A function that holds such a value and is called by itself needs one of these inputs too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.types import Any, TensorType, Type, tensor_types
from byoc.relay.expr import Call, Var
from byoc.relay.traverse import post_order
from byoc.runtime.core.bound_sizes import is_computable
from byoc.runtime.core.derived_size import names_in


def size_params(body: RelayExpr, known: Iterable[Type], params: Sequence[Var]) -> list[Var]:
    """Those of *params*, tensors, whose shapes give sizes that the typed *body* is over and the *known* types do not.

    Of a size that several have, the first.
    """
    given = {name for ty in known for name in _dims(ty)}
    named = {
        n for node in post_order(body) if isinstance(node, Call) for d in _dims(node.checked_type) for n in names_in(d)
    }
    found = []
    for param in params:
        own = _dims(param.checked_type) if isinstance(param.checked_type, TensorType) else []
        if any(name in own and not is_computable(name, given) for name in named):
            found.append(param)
            given.update(own)
    return found


def _dims(ty: Type) -> list[str]:
    """The dimensions with names in *ty*."""
    return [d.name for tensor in tensor_types(ty) for d in tensor.shape if isinstance(d, Any) and d.name]
