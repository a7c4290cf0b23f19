"""The type solver by Relay's global function: ``relay.analysis._ffi_api._test_type_solver()``.

Source: ``src/relay/analysis/type_solver.cc``.
"""

from __future__ import annotations

from collections.abc import Callable

from byoc.errors import UserError
from byoc.ir.registry import register_func
from byoc.relay.analysis.type_solver import TypeSolver


@register_func("relay.analysis._test_type_solver")
def _test_type_solver() -> Callable[[str], Callable[..., object]]:
    """A new solver, as a function from the names of its methods to these.

    ``Solve()`` says whether all constraints are settled, ``Unify(a, b)`` gives the one type of both, ``Resolve(type)``
    what is known of a type, ``AddConstraint(relation)`` adds a TypeRelation. The function raises UserError for another
    name, the methods TypeInferenceError for types that do not fit.
    """
    solver = TypeSolver()
    methods: dict[str, Callable[..., object]] = {
        "Solve": solver.solve,
        "Unify": lambda a, b: solver.resolve(solver.unify(a, b)),
        "Resolve": solver.resolve,
        "AddConstraint": solver.add_relation,
    }

    def method(name: str) -> Callable[..., object]:
        if name not in methods:
            raise UserError(f"the type solver has no method {name!r}; it has {', '.join(methods)}")
        return methods[name]

    return method
