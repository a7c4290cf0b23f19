"""Tables of kernels for the JSON engine: numpy's by default, a vendor's own where it gives one.

A vendor makes a table, fills it with kernels in the convention of ``byoc.runtime.kernels``, and names it in the module:
the name is saved with the module. Where nobody imported what makes the table, the entry point of that name in the group
``byoc.runtime`` does.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from byoc.runtime.core.entry_points import RUNTIME, caller_source
from byoc.runtime.core.errors import KernelError, UnavailableError
from byoc.runtime.json.attributes import check_annotation
from byoc.runtime.kernels import get_kernel
from byoc.runtime.kernels.core.registry import KERNELS, KernelFunction, NumpyKernel

TABLES: dict[str, KernelTable] = {}


class Kernels(Protocol):
    """What the engine looks its kernels up in."""

    @property
    def name(self) -> str:
        """What messages call it."""

    def __contains__(self, name: str) -> bool: ...

    def __getitem__(self, name: str) -> NumpyKernel: ...

    def has_own(self, name: str) -> bool:
        """Whether the kernel *name* is the vendor's, not numpy's reference."""


class KernelTable:
    """Kernels by operator or composite name; what is not here is looked up in numpy's table if *fallback* is true.

    A table that is made again at the same place (a notebook's cell that runs twice), or with *override*, begins anew.
    Raises KernelError when a table of that name exists otherwise.
    """

    def __init__(self, name: str, fallback: bool = False, override: bool = False):
        self.name, self.fallback = name, fallback
        self.source: str = caller_source()
        taken = TABLES.get(name)
        if taken is not None and not override and taken.source != self.source:
            raise KernelError(
                f"a kernel table is called {name!r} already, of {taken.source}; choose another name, or pass "
                "override=True to replace it"
            )
        self._kernels: dict[str, NumpyKernel] = {}
        TABLES[name] = self

    def kernel(self, *names: str, override: bool = False) -> Callable[[KernelFunction], KernelFunction]:
        """Register a kernel of this table, as a decorator.

        The same function, defined again, takes the place of what it was. Raises KernelError for a name that another
        has, unless *override*, and for an attribute whose annotation no attribute has.
        """

        def register(function: KernelFunction) -> KernelFunction:
            for name in names:
                made = NumpyKernel.of(name, function)
                for attribute, annotation in made.attributes.items():
                    check_annotation(annotation, f"kernel {name!r} of the table {self.name!r}: attribute {attribute!r}")
                taken = self._kernels.get(name)
                if taken is not None and not override and taken.source != made.source:
                    raise KernelError(
                        f"the kernel table {self.name!r} has a kernel {name!r} already, {taken.source}; pass "
                        "override=True to replace it"
                    )
                self._kernels[name] = made
            return function

        return register

    def __contains__(self, name: str) -> bool:
        return name in self._kernels or (self.fallback and name in KERNELS)

    def has_own(self, name: str) -> bool:
        """Whether the kernel *name* is the vendor's, not numpy's reference."""
        return name in self._kernels

    @property
    def own(self) -> Mapping[str, NumpyKernel]:
        """The vendor's kernels by name, without numpy's."""
        return MappingProxyType(self._kernels)

    def arity(self, name: str) -> int | None:
        """How many arrays the kernel *name* takes; None where it takes a list of them."""
        found = self[name]
        return None if found.tuple_arguments or found.variadic else found.positional

    def __getitem__(self, name: str) -> NumpyKernel:
        if name in self._kernels:
            return self._kernels[name]
        if self.fallback:
            return get_kernel(name)
        near = difflib.get_close_matches(name, self._kernels, n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise KernelError(f"the kernel table {self.name!r} has no kernel {name!r}{hint}")


def reference_attributes(name: str) -> Mapping[str, str]:
    """The attributes of numpy's kernel of that name, which are those that mean something; none where there is none."""
    return KERNELS[name].attributes if name in KERNELS else {}


def operator_of(name: str) -> str:
    """The operator or composite of the kernel *name*: declared kernels have its name before a colon.

    >>> operator_of("nn.conv2d:def@arm/float/any"), operator_of("nn.conv2d")
    ('nn.conv2d', 'nn.conv2d')
    """
    return name.partition(":")[0]


NUMPY = KernelTable("numpy", fallback=True)


def table_of_kernels(target: str) -> KernelTable:
    """The table of the kernels that are declared for *target* (``byoc.kernels``), which is made when there is none."""
    name = f"{target}_kernels"
    return TABLES[name] if name in TABLES else KernelTable(name)


def get_table(name: str) -> KernelTable:
    """The table *name*, which an installed package may bring.

    Raises KernelError with the known ones, UnavailableError where that package cannot be imported.
    """
    if name not in TABLES:
        loaded = RUNTIME.load(name)
        if loaded.problem:
            TABLES.pop(name, None)  # one that lacks what its package would have put into it
            raise UnavailableError(f"the kernel table {name!r}: {loaded.problem}")
        if loaded.values and name not in TABLES:
            raise UnavailableError(
                f"the kernel table {name!r}: {RUNTIME.gave(name)}, and no table of that name was made; let it give the "
                f"object of KernelTable({name!r}), or its module"
            )
    if name not in TABLES:
        raise KernelError(
            f"no kernel table is called {name!r}; known: {', '.join(TABLES)}; install the vendor's package (its entry "
            f"point {name!r} of the group {RUNTIME.group} brings the table), or import what makes it first"
        )
    return TABLES[name]
