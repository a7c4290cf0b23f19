"""Which backend runs the declared kernels of a target: the target itself where nothing else compiles for it.

A target that has a code generator too (``opencl``, a vendor's) gets a second backend, ``opencl_kernels``, which stands
before it among the targets of a plan: a declared kernel stands for what the generator would make of its call. The
kernels of ``host`` are those of ``host_kernels``, which stands last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from byoc.contract.backend import Backend
from byoc.contract.registration import BACKENDS
from byoc.errors import PartitionError
from byoc.ir import entry_points
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.partition.place import HOST, Place
from byoc.partition.places.kernel import KERNELS, Kernel
from byoc.relay.expr import Call, Function

_SUFFIX = "_kernels"


class KernelLibrary(Backend):
    """A backend that runs the declared kernels of the target ``kernels_of``."""

    kernels_of: str = ""

    def fitting(self, call: Call) -> Sequence[Kernel]:
        """The kernels that may compute *call*, one for each precision and layout in which they do."""
        raise NotImplementedError

    def composite_attributes(self, composite: Function) -> Mapping[str, object] | None:
        """The attributes that the kernel of a composite gets, by the names under which it declares them, or reads them
        as ``ATTR_name``; None for those of the operators in it. Override it where two operators in it have one of the
        same name, or where the kernel wants another name or value. The kernel must know each of them, and is no longer
        asked about the operators' own.
        """
        return None


def kernels_run_by(backend: Backend) -> str:
    """The target whose declared kernels *backend* runs; empty where it runs none."""
    return backend.kernels_of if isinstance(backend, KernelLibrary) else ""


def check_places(backends: Iterable[Backend]) -> None:
    """Raises PartitionError for a vendor's ``places()`` of another form, whichever policy asks for them or not.

    byoc's own are not asked: OpenCL's look at the device.
    """
    for backend in backends:
        if not str(getattr(backend.places, "__module__", "")).startswith("byoc."):
            places_of(backend)


def places_of(backend: Backend) -> tuple[Place, ...]:
    """The places of the kernels of *backend*, as it says them.

    Raises PartitionError for what is no sequence of places, and for one of another target.
    """
    from byoc.contract.checks import answer_of  # which few plans need

    example = f'"{backend.name}/float/NCHW"'
    expected = f"a sequence of places as target/precision/layout, as in ({example},)"
    found = answer_of(backend, "places", expected)
    if not isinstance(found, Sequence) or isinstance(found, str) or not found:
        raise PartitionError(f"backend {backend.name!r}: its places() gave {found!r}, expected {expected}")
    return tuple(_place_of(backend, value, f"places()[{k}]", example) for k, value in enumerate(found))


def _place_of(backend: Backend, value: object, where: str, example: str) -> Place:
    problem = f"backend {backend.name!r}: {where} is {value if isinstance(value, Place) else repr(value)}"
    if not isinstance(value, (str, Place)):
        raise PartitionError(f"{problem}, expected a place as target/precision/layout, as in {example}")
    try:
        place = Place.of(value)
    except PartitionError as error:
        raise PartitionError(f"{problem}: {error}; write it as in {example}") from error
    if place.target not in (backend.name, kernels_run_by(backend)):
        raise PartitionError(f"{problem}, which is of another target; its places are its own target's, as in {example}")
    return place


def runnable(target: str) -> list[Kernel]:
    """The declared kernels of *target* that compute something, in the order of their registration."""
    return [k for k in KERNELS if k.place.target == target and k.run is not None]


def library_of(target: str) -> str:
    """The name of the backend that runs the declared kernels of *target*."""
    entry_points.load(target)  # which may bring kernels alone, a backend, or both
    own = BACKENDS.get(target)
    if own is not None and kernels_run_by(own) == target:
        return target
    compiles = own is not None or target == HOST or f"relay.ext.{target}" in GLOBAL_FUNCTIONS
    return f"{target}{_SUFFIX}" if compiles else target


def libraries() -> Iterator[tuple[str, str]]:
    """The backends of declared kernels that nobody registered: their names, and whose kernels they run."""
    for target in dict.fromkeys(k.place.target for k in KERNELS if k.run is not None):
        name = library_of(target)
        if name not in BACKENDS:
            yield name, target


def with_libraries(targets: Sequence[str]) -> list[str]:
    """*targets* with the backends of their declared kernels."""
    found: dict[str, None] = {}
    for target in (*targets, HOST):
        library = library_of(target)
        names = [library] if runnable(target) else []
        found.update(dict.fromkeys((*names, *(() if target == HOST else (target,)))))
    return list(found)
