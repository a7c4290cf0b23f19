"""The runtime module of declared kernels: functions of a table, and compiled kernels of source, in one graph.

The kernels of source are modules of their own, one function for each node; their members are saved behind
``kernel_<number>/``. A node whose name ends with ``|float16|float32`` is a kernel of float16 between float32 values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from byoc.runtime.core.errors import ArtifactError, KernelError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import Signature
from byoc.runtime.core.strict_json import at, list_of, object_of, read_json, text_of
from byoc.runtime.json.module import JsonModule, read_members
from byoc.runtime.json.table import Kernels, KernelTable, get_table, operator_of
from byoc.runtime.kernels.core.registry import NumpyKernel
from byoc.runtime.modules.module import Members, PackedFunction, members_below, module_class
from byoc.runtime.region.checks import checks_asked, guarded

INNER_MEMBER = "kernels.json"
_MARK = "|"
INNER_KINDS = ("c", "opencl")


class SourceModule(Protocol):
    """What a module of one kernel of source has: those of generated C and of OpenCL do."""

    type_key: str
    symbols: Sequence[str]

    @property
    def signatures(self) -> Mapping[str, Signature]: ...

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None: ...

    def unavailable(self) -> str | None: ...

    def get_source(self, fmt: str = "") -> str: ...

    def save(self) -> Mapping[str, bytes]: ...


def converting(kernel: str, computed: str, given: str) -> str:
    """The name of a node whose kernel computes in the float *computed* between values of the float *given*."""
    return f"{kernel}{_MARK}{computed}{_MARK}{given}"


class RegionTable:
    """The kernels of one region: those of *declared*, and functions of the modules *inner* by the names of nodes."""

    def __init__(self, declared: KernelTable, inner: Mapping[str, SourceModule]):
        self.name = declared.name
        self._declared, self._inner = declared, inner

    def __contains__(self, name: str) -> bool:
        return name in self._inner or self._known(name.partition(_MARK)[0]) in self._declared

    def _known(self, kernel: str) -> str:
        """What the table calls *kernel*: its whole name, or the operator's where one function serves all of its."""
        return kernel if kernel in self._declared else operator_of(kernel)

    def has_own(self, name: str) -> bool:
        return name in self

    def arity(self, name: str) -> int | None:
        """How many arrays the kernel *name* takes; None where it takes a list of them."""
        if name not in self._inner:
            return self._declared.arity(self._known(name.partition(_MARK)[0]))
        (symbol,) = self._inner[name].symbols
        return len(self._inner[name].signatures[symbol].inputs)

    def __getitem__(self, name: str) -> NumpyKernel:
        if name in self._inner:
            return _of_module(name, self._inner[name])
        plain, *floats = name.split(_MARK)
        kernel = self._declared[self._known(plain)]
        if not floats:
            return kernel
        if len(floats) != 2:
            raise KernelError(f"the kernel {name!r} has no two floats behind its name; compile the model again")
        return _converting(kernel, *(numpy_dtype(f) for f in floats))


def _of_module(name: str, module: SourceModule) -> NumpyKernel:
    """A kernel that calls the only function of *module*."""
    (symbol,) = module.symbols
    signature = module.signatures[symbol]
    known: list[Any] = []

    def run(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        outputs = signature.empty_outputs(arrays)
        if not known:
            known.append(guarded(module.get_function(symbol), checks_asked()))
        known[0](*arrays, *outputs)
        return tuple(outputs)

    return NumpyKernel(name, run, {}, frozenset(), len(signature.inputs))


def _converting(kernel: NumpyKernel, computed: np.dtype[Any], given: np.dtype[Any]) -> NumpyKernel:
    """*kernel*, which computes in the float *computed*, for values of *given*."""
    function = kernel.function

    def converted(value: object, source: np.dtype[Any], target: np.dtype[Any]) -> object:
        if isinstance(value, (list, tuple)):
            return [converted(v, source, target) for v in value]
        array = np.asarray(value)
        return array.astype(target) if array.dtype == source else array

    def run(*arrays: object, **attributes: object) -> tuple[np.ndarray, ...]:
        result = function(*(converted(a, given, computed) for a in arrays), **attributes)
        results = result if isinstance(result, (tuple, list)) else (result,)
        return tuple(np.asarray(converted(r, computed, given)) for r in results)

    return NumpyKernel(
        kernel.name,
        run,
        kernel.attributes,
        kernel.required,
        kernel.positional,
        kernel.tuple_arguments,
        kernel.variadic,
        kernel.source,
        kernel.takes_all,
    )


class KernelsModule(JsonModule):
    """Graphs whose nodes are declared kernels; *inner* are the modules of those of source, by the names of nodes."""

    type_key = "kernels"

    def __init__(
        self,
        graphs: Mapping[str, Mapping[str, object]],
        signatures: Sequence[Signature],
        table: str,
        inner: Mapping[str, SourceModule],
    ):
        self.inner = dict(inner)
        self._declared = get_table(table)
        super().__init__(graphs, signatures, table)

    def kernels(self) -> Kernels:
        return RegionTable(self._declared, self.inner)

    def unavailable(self) -> str | None:
        return next((why for module in self.inner.values() if (why := module.unavailable())), None)

    def get_source(self, fmt: str = "") -> str:
        return "\n".join([super().get_source(fmt), *(module.get_source(fmt) for module in self.inner.values())])

    def save(self) -> dict[str, bytes]:
        inner = [{"node": name, "kind": module.type_key} for name, module in self.inner.items()]
        members = {**super().save(), INNER_MEMBER: json.dumps(inner, indent=1).encode()}
        for k, module in enumerate(self.inner.values()):
            members.update({f"kernel_{k}/{name}": data for name, data in module.save().items()})
        return members

    @classmethod
    def load(cls, members: Members) -> KernelsModule:
        graphs, signatures, table = read_members(members)
        inner: dict[str, SourceModule] = {}
        if INNER_MEMBER not in members:
            raise ArtifactError(f"a module of type {cls.type_key!r} needs the member {INNER_MEMBER!r}")
        try:
            rows = list_of(read_json(members[INNER_MEMBER], INNER_MEMBER), INNER_MEMBER)
        except ValueError as error:
            raise ArtifactError(f"{INNER_MEMBER} is damaged ({error}); save the model again") from error
        for k, row in enumerate(rows):
            where = at(INNER_MEMBER, k)
            fields = object_of(row, where, ("node", "kind"))
            kind = text_of(fields["kind"], at(where, "kind"))
            if kind not in INNER_KINDS:
                raise ArtifactError(
                    f"{where}: a kernel of source is a module of {' or '.join(INNER_KINDS)}, not {kind!r}"
                )
            module: Any = module_class(kind).load(members_below(members, f"kernel_{k}"))
            if len(module.symbols) != 1:
                raise ArtifactError(
                    f"{where}: a kernel of source has one function, and {len(module.symbols)} are there"
                )
            inner[text_of(fields["node"], at(where, "node"))] = module
        return cls(graphs, signatures, table, inner)
