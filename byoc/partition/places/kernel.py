"""Kernels of operators at places: a registry in which several may serve one operator, like overloads.

A kernel's key is its operator, its place and an alias; a key that is taken is an error that names both places of
registration. Each input and output has a type; what is not said of it is as the kernel's place. Source:
``REGISTER_LITE_KERNEL(...).BindInput(...).BindOutput(...).Finalize()``, ``lite/core/op_registry.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from byoc.contract.registration import offer_backends
from byoc.contract.verdict import Constraint, as_constraint
from byoc.errors import PartitionError, RegistryError
from byoc.ir.registry import Registry, caller_location
from byoc.partition.place import ANY, DataLayout, Place, Precision
from byoc.partition.places.source import CSource, OpenCLSource
from byoc.relay.expr import Call
from byoc.runtime.core.entry_points import source_of
from byoc.runtime.kernels.core.registry import KernelFunction

if TYPE_CHECKING:
    from byoc.partition.places.tensor_type import TensorTy

KernelImplementation = KernelFunction | CSource | OpenCLSource
Run = TypeVar("Run", bound=KernelImplementation)
Key = tuple[str, Place, str]
BACKENDS = "byoc.kernels.backend"  # runs declared kernels; imported when somebody asks for one of their targets


@dataclass(frozen=True, eq=False)
class Kernel:
    """One way to compute an operator at a place. *order* is its number among all that were registered.

    *run* computes it: a function of numpy arrays (the inputs as positionals, tuples flattened, in the order of
    *inputs*; the operator's attributes as annotated keywords), or source in C or OpenCL C. With None a kernel is only
    chosen. *constraints* say of which calls, as those of a backend. *seconds* says what a call takes: among kernels of
    one place that all say it the fastest is taken, else the one with the best grade.
    """

    op: str
    place: Place
    alias: str = "def"
    inputs: Mapping[str, TensorTy] = field(default_factory=dict)
    outputs: Mapping[str, TensorTy] = field(default_factory=dict)
    where: str = ""
    order: int = 0
    run: KernelImplementation | None = None
    constraints: tuple[Constraint, ...] = ()
    seconds: Callable[[Call], float] | None = None

    @property
    def key(self) -> Key:
        """What identifies it."""
        return (self.op, self.place, self.alias)

    @cached_property
    def _at_place(self) -> TensorTy:
        from byoc.partition.places.tensor_type import TensorTy

        return TensorTy.at(self.place)

    def input_type(self, name: str) -> TensorTy:
        """The declared type of an input, or that of a tensor at the kernel's place."""
        return self.inputs.get(name) or self._at_place

    def output_type(self, name: str) -> TensorTy:
        """The declared type of an output, or that of a tensor at the kernel's place."""
        return self.outputs.get(name) or self._at_place

    def signature(self) -> str:
        """``conv2d:def@opencl/float/NCHW(Input: …) -> (Output: …)``."""

        def listed(types: Mapping[str, TensorTy]) -> str:
            return ", ".join(f"{name}: {ty}" for name, ty in types.items())

        return f"{self}({listed(self.inputs)}) -> ({listed(self.outputs)})"

    def __str__(self) -> str:
        return f"{self.op}:{self.alias}@{self.place}"


class KernelRegistry:
    """Kernels in the order of their registration."""

    def __init__(self) -> None:
        self._kernels: Registry[Kernel] = Registry("kernel")
        self._by_op: dict[str, list[Kernel]] = {}
        self._next = 0

    def add(self, kernel: Kernel) -> Kernel:
        """Add *kernel*, and give it its number. One that is declared again at the same place (a notebook's cell that
        runs twice) takes the place of what it was. Raises RegistryError naming both places when its key is taken.
        """
        made = replace(kernel, order=self._next, where=kernel.where or caller_location())
        taken = self._kernels.get(_name(made))
        if taken is not None and _same_source(taken, made):
            self.remove(taken)
            made = replace(made, order=self._next)
        elif taken is not None:
            raise RegistryError(
                f"kernel {made} is registered twice: at {self._kernels.place(_name(made))} and at {made.where}; "
                "give one of them another alias"
            )
        self._kernels.register(_name(made), made, where=made.where)
        self._next += 1
        self._by_op.setdefault(made.op, []).append(made)
        if self is KERNELS and made.run is not None:
            _offer(made)
        return made

    def remove(self, kernel: Kernel) -> None:
        """Take *kernel* out again. Raises RegistryError when it is not there."""
        self._kernels.unregister(_name(kernel))
        left = self._by_op[kernel.op] = [k for k in self._by_op[kernel.op] if k.key != kernel.key]
        if not left:
            del self._by_op[kernel.op]
        self._next = 1 + max((self._kernels[name].order for name in self._kernels), default=-1)

    def of(self, op: str) -> tuple[Kernel, ...]:
        """The kernels of an operator, in the order of their registration; none where there is none."""
        return tuple(self._by_op.get(op, ()))

    def __iter__(self) -> Iterator[Kernel]:
        return (self._kernels[name] for name in self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    @contextmanager
    def temporary(self) -> Iterator[KernelRegistry]:
        """Kernels that are added within are gone afterwards."""
        before = {k.key for k in self}
        try:
            yield self
        finally:
            for kernel in [k for k in self if k.key not in before]:
                self.remove(kernel)

    def resolve(self, op: str, inputs: Mapping[str, TensorTy], alias: str | None = None) -> Kernel:
        """The kernel of *op* whose declared inputs these types fit without a cast, as C++ resolves an overload.

        The one with the most fields that are equal, not merely fitting. Raises PartitionError with the candidates, and
        why each is not viable, when there is none, or when several are as good.
        """
        candidates = [k for k in self.of(op) if alias is None or k.alias == alias]
        viable = [(_closeness(k, inputs), k) for k in candidates if not _obstacle(k, inputs)]
        best = [k for closeness, k in viable if closeness == max(c for c, _ in viable)]
        if len(best) == 1:
            return best[0]
        call = f"{op}({', '.join(f'{n}: {t}' for n, t in inputs.items())})"
        if best:
            listed = "\n".join(f"  candidate: {k.signature()} [{k.where}]" for k in best)
            raise PartitionError(f"call of {call} is ambiguous; give an alias\n{listed}")
        listed = "\n".join(f"  candidate: {k.signature()} [{k.where}]: {_obstacle(k, inputs)}" for k in candidates)
        raise PartitionError(f"no kernel for call of {call}\n{listed or '  no candidate: nobody registered one'}")


def _name(kernel: Kernel) -> str:
    return str(kernel)


def _same_source(a: Kernel, b: Kernel) -> bool:
    """Whether both were declared at one place in a file."""
    if callable(a.run) and callable(b.run):
        return source_of(a.run) == source_of(b.run)
    return a.run is not None and b.run is not None and a.where == b.where


def _offer(kernel: Kernel) -> None:
    """Have the target of *kernel* be one that compiles, and its function be found where a saved model is loaded."""
    offer_backends(BACKENDS)
    if callable(kernel.run):
        from byoc.runtime.json.table import table_of_kernels  # a part that may be left out

        table_of_kernels(kernel.place.target).kernel(_name(kernel), override=True)(kernel.run)


def _obstacle(kernel: Kernel, inputs: Mapping[str, TensorTy]) -> str:
    """Why *kernel* does not take these inputs; empty where it does."""
    from byoc.partition.places.tensor_type import conflicts

    missing = [name for name in kernel.inputs if name not in inputs]
    unknown = [name for name in inputs if name not in kernel.inputs]
    if missing or unknown:
        words = [f"needs input {n}" for n in missing] + [f"has no input {n}" for n in unknown]
        return "; ".join(words)
    for name, ty in inputs.items():
        differs = conflicts(ty, kernel.inputs[name])
        if differs:
            return f"no known conversion of {name} from {ty} to {kernel.inputs[name]} ({', '.join(differs)})"
    return ""


def _closeness(kernel: Kernel, inputs: Mapping[str, TensorTy]) -> int:
    return sum(
        getattr(ty, part) == getattr(kernel.inputs[name], part)
        for name, ty in inputs.items()
        for part in ("target", "precision", "layout", "device")
    )


KERNELS = KernelRegistry()  # those that run, and those that policy score chooses among


class KernelBuilder:
    """A kernel in the making: bind its inputs and outputs, then :meth:`finalize`."""

    def __init__(self, op: str, place: Place, alias: str, where: str, registry: KernelRegistry):
        self._kernel = Kernel(op, place, alias, where=where)
        self._inputs: dict[str, TensorTy] = {}
        self._outputs: dict[str, TensorTy] = {}
        self._registry = registry

    def bind_input(self, name: str, ty: TensorTy | Place | str | None = None, **parts: object) -> KernelBuilder:
        """Declare an input: a whole type, or its *parts* (``precision="int32"``), the rest as the kernel's place.

        Raises PartitionError when the name is bound already.
        """
        return self._bind(self._inputs, "input", name, ty, parts)

    def bind_output(self, name: str, ty: TensorTy | Place | str | None = None, **parts: object) -> KernelBuilder:
        """Declare an output as :meth:`bind_input` does an input."""
        return self._bind(self._outputs, "output", name, ty, parts)

    def finalize(self, run: KernelImplementation | None = None) -> Kernel:
        """Register the kernel; *run* computes it. Raises RegistryError when its key is taken."""
        return self._registry.add(replace(self._kernel, inputs=self._inputs, outputs=self._outputs, run=run))

    def _bind(
        self,
        types: dict[str, TensorTy],
        what: str,
        name: str,
        ty: TensorTy | Place | str | None,
        parts: Mapping[str, object],
    ) -> KernelBuilder:
        if name in types:
            raise PartitionError(f"{what} {name!r} of kernel {self._kernel} is bound twice")
        types[name] = declared_type(self._kernel.place, ty, parts)
        return self


def declared_type(
    place: Place, ty: TensorTy | Place | str | None, parts: Mapping[str, object] | None = None
) -> TensorTy:
    """The type that is *ty*, or that of a tensor at *place*, with *parts* of it given. Raises PartitionError."""
    from byoc.partition.places.tensor_type import TensorTy

    base = TensorTy.at(place) if ty is None else ty if isinstance(ty, TensorTy) else TensorTy.at(Place.of(ty))
    unknown = [name for name in parts or () if name not in ("target", "precision", "layout", "device", "kind")]
    if unknown:
        raise PartitionError(
            f"a tensor's type has no part {unknown[0]!r}; it has target, precision, layout, device and kind"
        )
    make: Callable[..., TensorTy] = TensorTy  # which looks at what the parts are
    return make(**{**vars(base), **parts}) if parts else base


def register_kernel(
    op: str, place: Place | str, alias: str = "def", *, registry: KernelRegistry | None = None
) -> KernelBuilder:
    """Begin the registration of a kernel of *op* at *place*; it is there after ``finalize``."""
    return KernelBuilder(op, Place.of(place), alias, caller_location(), KERNELS if registry is None else registry)


def kernel(
    op: str,
    place: Place | str,
    alias: str = "def",
    *,
    inputs: Mapping[str, TensorTy | Place | str | None] | None = None,
    outputs: Mapping[str, TensorTy | Place | str | None] | None = None,
    constraints: Sequence[Constraint] = (),
    seconds: Callable[[Call], float] | None = None,
) -> Callable[[Run], Run]:
    """Register the decorated function, or the source that the result is called with, as a kernel of *op* at *place*.

    Args:
        op: the operator, or a composite of the target's pattern table.
        place: ``target/precision/layout``; ``any`` takes what comes.
        alias: distinguishes kernels of one operator at one place.
        inputs, outputs: their types by name, in order; None is that of the place. Without them any number is taken.
        constraints: what must hold of a call beside its types (``byoc.contract.constraint``).
        seconds: what a call takes, where the vendor knows.

    Raises RegistryError when the key is taken, PartitionError for a type that is none.
    """
    at, where = Place.of(place), caller_location()
    for what, types in (("inputs", inputs), ("outputs", outputs)):
        if types is not None and not isinstance(types, Mapping):
            raise PartitionError(
                f"kernel {op}:{alias}@{at}: {what} is {types!r}, expected types by name, in order, None being that of "
                f'the place, as in {what}={{"data": None, "indices": "{at.target}/int64"}}'
            )

    def register(run: Run) -> Run:
        given: object = run
        if not (callable(given) or isinstance(given, (CSource, OpenCLSource))):
            raise PartitionError(
                f"kernel {op}:{alias}@{at} is {given!r}, expected a function of arrays, a CSource or an OpenCLSource"
            )
        KERNELS.add(
            Kernel(
                op,
                at,
                alias,
                {name: declared_type(at, ty) for name, ty in (inputs or {}).items()},
                {name: declared_type(at, ty) for name, ty in (outputs or {}).items()},
                where,
                run=run,
                constraints=tuple(as_constraint(c, f"kernel {op}:{alias}@{at}") for c in constraints),
                seconds=seconds,
            )
        )
        return run

    return register


def covers(wish: Place, kernel: Kernel) -> bool:
    """Whether *kernel* is one for the place *wish*: of its target, precision and layout, ``any`` being all."""
    place = kernel.place
    return (
        (place.target == wish.target or ANY in (place.target, wish.target))
        and (place.precision == wish.precision or Precision.ANY in (place.precision, wish.precision))
        and (place.layout == wish.layout or DataLayout.ANY in (place.layout, wish.layout))
    )
