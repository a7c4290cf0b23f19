"""Tables of kernels for the JSON engine: numpy's by default, a vendor's own where it gives one.

A vendor makes a table, fills it with kernels in the convention of ``byoc.runtime.kernels``, and names it in the module:
the name is saved with the module, so that the package that registers the table must be imported before loading.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels import get_kernel
from byoc.runtime.kernels.core.registry import KERNELS, Kernel, KernelFunction

TABLES: dict[str, KernelTable] = {}


class KernelTable:
    """Kernels by operator or composite name; what is not here is looked up in numpy's table if *fallback* is true.

    Raises KernelError when a table of that name exists.
    """

    def __init__(self, name: str, fallback: bool = False):
        if name in TABLES:
            raise KernelError(f"a kernel table is called {name!r} already; choose another name")
        self.name, self.fallback = name, fallback
        self._kernels: dict[str, Kernel] = {}
        TABLES[name] = self

    def kernel(self, *names: str) -> Callable[[KernelFunction], KernelFunction]:
        """Register a kernel of this table, as a decorator. Raises KernelError for a taken name."""

        def register(function: KernelFunction) -> KernelFunction:
            for name in names:
                if name in self._kernels:
                    raise KernelError(f"the kernel table {self.name!r} has a kernel {name!r} already")
                self._kernels[name] = Kernel.of(name, function)
            return function

        return register

    def __contains__(self, name: str) -> bool:
        return name in self._kernels or (self.fallback and name in KERNELS)

    def arity(self, name: str) -> int | None:
        """How many arrays the kernel *name* takes; None where it takes a list of them."""
        found = self[name]
        return None if found.tuple_arguments or found.variadic else found.positional

    def __getitem__(self, name: str) -> Kernel:
        if name in self._kernels:
            return self._kernels[name]
        if self.fallback:
            return get_kernel(name)
        near = difflib.get_close_matches(name, self._kernels, n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise KernelError(f"the kernel table {self.name!r} has no kernel {name!r}{hint}")


NUMPY = KernelTable("numpy", fallback=True)


def get_table(name: str) -> KernelTable:
    """The table *name*. Raises KernelError with the known ones."""
    if name not in TABLES:
        raise KernelError(
            f"no kernel table is called {name!r}; known: {', '.join(TABLES)}; import the package that registers it"
        )
    return TABLES[name]
