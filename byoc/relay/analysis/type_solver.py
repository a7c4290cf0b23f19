"""Unification of types, and relations between types that are solved as soon as enough of them is known.

Unknown types are :class:`IncompleteType` objects, each bound at most once to what it was unified with. Dimensions that
differ where one is dynamic unify to an unknown one, as in Relay. Source: ``src/relay/analysis/type_solver.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.errors import TypeInferenceError
from byoc.ir.dims import Any, Dim, are_known
from byoc.ir.env_func import EnvFunc
from byoc.ir.types import (
    FuncType,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
    contains_type,
    rebuild_type,
    substitute_types,
    type_children,
)
from byoc.relay.narrowing import as_function_type

# tries to learn something, and says whether there is nothing more to learn
SolverConstraint = Callable[[], bool]


class TypeSolver:
    """Bindings of unknown types, and constraints that wait for more to be known."""

    def __init__(self) -> None:
        self._bound: dict[IncompleteType, Type] = {}
        self._waiting: list[SolverConstraint] = []
        self._learned = 0

    # unknown types ------------------------------------------------------------------------------------------------

    def shallow(self, ty: Type) -> Type:
        """*ty*, or what it was found to be; types inside it may still be unknown."""
        while isinstance(ty, IncompleteType) and ty in self._bound:
            ty = self._bound[ty]
        return ty

    def resolve(self, ty: Type) -> Type:
        """*ty* with all that is known filled in."""
        ty = self.shallow(ty)
        inner = type_children(ty)
        return rebuild_type(ty, [self.resolve(t) for t in inner]) if inner else ty

    def known(self, ty: Type) -> Type | None:
        """*ty* filled in, or None while some of it is unknown."""
        resolved = self.resolve(ty)
        return None if contains_type(resolved, IncompleteType) else resolved

    def _bind(self, unknown: IncompleteType, ty: Type) -> Type:
        if self._occurs(unknown, ty):
            raise TypeInferenceError(f"a type would contain itself: {ty}")
        self._bound[unknown] = ty
        self._learned += 1
        return ty

    def _occurs(self, unknown: IncompleteType, ty: Type) -> bool:
        stack = [ty]
        while stack:
            top = self.shallow(stack.pop())
            if top is unknown:
                return True
            stack.extend(type_children(top))
        return False

    # unification --------------------------------------------------------------------------------------------------

    def unify(self, a: Type, b: Type) -> Type:
        """Make *a* and *b* the same type, and return it. Raises TypeInferenceError where they cannot be."""
        left, right = self.shallow(a), self.shallow(b)
        if left is right:
            return left
        if isinstance(left, IncompleteType):
            return self._bind(left, right)
        if isinstance(right, IncompleteType):
            return self._bind(right, left)
        merged = self._merge(left, right)
        self._replace(a, merged)
        self._replace(b, merged)
        return merged

    def _replace(self, ty: Type, merged: Type) -> None:
        """Let an unknown type that was bound to something more precise be *merged* from now on."""
        last = None
        while isinstance(ty, IncompleteType) and ty in self._bound:
            last, ty = ty, self._bound[ty]
        if last is not None and ty is not merged:
            self._bound[last] = merged

    def _merge(self, a: Type, b: Type) -> Type:
        if a == b:
            return a
        if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype == b.dtype and a.ndim == b.ndim:
            dims = [self._merge_dims(x, y) for x, y in zip(a.shape, b.shape, strict=True)]
            if are_known(dims):
                return TensorType(dims, a.dtype)
        if isinstance(a, FuncType) and isinstance(b, FuncType) and len(a.arg_types) == len(b.arg_types):
            generic, other = (a, b) if len(a.type_params) >= len(b.type_params) else (b, a)
            if generic.type_params:
                generic = _instance(as_function_type(self.resolve(generic)), other.type_params)
            return self._merge_inner(generic, other)
        if isinstance(a, (TupleType, RefType, TypeCall)) and type(a) is type(b):
            if len(type_children(a)) == len(type_children(b)):
                return self._merge_inner(a, b)
        first, second = self.resolve(a), self.resolve(b)
        raise TypeInferenceError(f"{first} and {second} are not the same type", (second, first))

    def _merge_inner(self, a: Type, b: Type) -> Type:
        pairs = zip(type_children(a), type_children(b), strict=True)
        return rebuild_type(a, [self.unify(x, y) for x, y in pairs])

    def _merge_dims(self, a: Dim, b: Dim) -> Dim | None:
        if a == b:
            return a
        return Any() if isinstance(a, Any) or isinstance(b, Any) else None

    # constraints --------------------------------------------------------------------------------------------------

    def add(self, constraint: SolverConstraint) -> None:
        """Try *constraint* now, and keep it while it is not settled."""
        if not constraint():
            self._waiting.append(constraint)

    def solve(self) -> bool:
        """Try what waits until nothing more is learned; True when all is settled."""
        while self._waiting:
            before, waiting = self._learned, self._waiting
            self._waiting = [constraint for constraint in waiting if not constraint()]
            if len(self._waiting) == len(waiting) and self._learned == before:
                return False
        return True

    def add_relation(self, relation: TypeRelation) -> None:
        """Add a relation whose last argument is its result: ``func(input types, attrs)`` gives it.

        Where the function says so (``unifies``), all arguments are one type.
        """
        func = relation.func.func if isinstance(relation.func, EnvFunc) else relation.func
        if not callable(func):
            raise TypeError(f"a type relation is a function, got {func!r}")
        if getattr(func, "unifies", False):
            for arg in relation.args[1:]:
                self.unify(relation.args[0], arg)
            return

        def settle() -> bool:
            inputs = [self.known(ty) for ty in relation.args[: relation.num_inputs]]
            output = relation.args[-1]
            if any(ty is None for ty in inputs):
                self.fill(inputs, relation.args, getattr(func, "infer_inputs", None), output, relation.attrs)
                inputs = [self.known(ty) for ty in relation.args[: relation.num_inputs]]
            if any(ty is None for ty in inputs):
                return False
            result = func(inputs, relation.attrs)
            if not isinstance(result, Type):
                raise TypeInferenceError(f"a type relation gives a type, got {result!r}")
            self.unify(output, result)
            return True

        self.add(settle)

    def fill(
        self,
        inputs: Sequence[Type | None],
        variables: Sequence[Type],
        infer_inputs: Callable[..., Sequence[Type | None]] | None,
        output: Type,
        attrs: object,
    ) -> None:
        """Let *infer_inputs* say what the unknown ones of *inputs* are, and unify that with their *variables*."""
        if infer_inputs is None:
            return
        found = infer_inputs(inputs, self.known(output), attrs)
        for before, variable, after in zip(inputs, variables, found, strict=False):
            if before is None and after is not None:
                self.unify(variable, after)


def _instance(generic: FuncType, params: Sequence[TypeVar]) -> FuncType:
    """*generic* over *params*, and over unknown types where it has more parameters than these."""
    extra = [IncompleteType(var.kind) for var in generic.type_params[len(params) :]]
    names: dict[Type, Type] = dict(zip(generic.type_params, (*params, *extra), strict=True))
    parts = [substitute_types(t, names) for t in (*generic.arg_types, generic.ret_type)]
    return FuncType(parts[:-1], parts[-1], params)
