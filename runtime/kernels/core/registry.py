"""The table of numpy kernels: the reference meaning of every operator, and the host's last resort.

A kernel takes its tensors as positional arguments (a tuple argument as a list) and its attributes as keywords, or as
one object where it has many (``attributes.py``). It returns an array or a tuple of arrays. The annotations of the
keywords are the types of the attributes, from which the text form that a JSON graph carries is read back.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import re
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from byoc.runtime.core.entry_points import source_of
from byoc.runtime.core.errors import KernelError, UserError
from byoc.runtime.kernels.core.attributes import by_keywords

Arrays = np.ndarray | tuple[np.ndarray, ...]
KernelFunction = Callable[..., Arrays]
F = TypeVar("F", bound=KernelFunction)


_LISTS = ("list", "sequence", "tuple")
OWN = ("byoc.runtime.", "numpy")  # the modules whose kernels are the reference


def annotation_text(annotation: object) -> str:
    """An annotation as it is written, ``tuple[int, ...] | None``, also where it is not kept as text.

    >>> annotation_text(int), annotation_text("int | None"), annotation_text("Optional[Tuple[int, ...]]")
    ('int', 'int | None', 'tuple[int, ...] | None')
    """
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation.__qualname__ if type(annotation) is type else str(annotation)
    text = text.replace("typing.", "").replace("collections.abc.", "").replace("NoneType", "None")
    text = re.sub(r"\b(Tuple|List)\[", lambda found: f"{found[1].lower()}[", text)
    inner = re.fullmatch(r"(Optional|Union)\[(.*)\]", text)
    if inner is None:
        return text
    parts = re.split(r", *(?![^\[]*\])", inner[2]) if inner[1] == "Union" else [inner[2], "None"]
    return " | ".join(parts)


@dataclass(frozen=True)
class NumpyKernel:
    """A kernel by its name, the attributes that it takes (name to annotation) and those without a default.

    ``tuple_arguments`` are the positions of the arguments that are lists of arrays; several are equally long.
    ``variadic`` is a kernel that takes further arrays, or has arrays that may be left out; ``takes_all`` one that takes
    any attribute (``**attributes``).
    """

    name: str
    function: KernelFunction
    attributes: Mapping[str, str]
    required: frozenset[str]
    positional: int = 0
    tuple_arguments: tuple[int, ...] = ()
    variadic: bool = False
    source: str = ""
    takes_all: bool = False

    @staticmethod
    def of(name: str, function: KernelFunction) -> NumpyKernel:
        """The kernel that *function* is, read from its signature."""
        if isinstance(function, np.ufunc):  # no signature before numpy 2.4, and its keywords are no attributes
            names = (f"x{k}" for k in range(function.nin))
            parameters = tuple(inspect.Parameter(x, inspect.Parameter.POSITIONAL_OR_KEYWORD) for x in names)
        else:
            function = by_keywords(function)
            parameters = tuple(inspect.signature(function).parameters.values())
        keywords = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
        arrays = [p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        lists = [k for k, p in enumerate(arrays) if annotation_text(p.annotation).lower().startswith(_LISTS)]
        return NumpyKernel(
            name,
            function,
            {p.name: annotation_text(p.annotation) for p in keywords},
            frozenset(p.name for p in keywords if p.default is inspect.Parameter.empty),
            len(arrays),
            tuple(lists),
            any(p.kind is p.VAR_POSITIONAL for p in parameters) or any(p.default is not p.empty for p in arrays),
            takes_all=any(p.kind is p.VAR_KEYWORD for p in parameters),
            source=source_of(function),
        )

    def regroup(self, arrays: list[np.ndarray]) -> list[object]:
        """A flat list of inputs as this kernel takes them: those of its tuple arguments as lists."""
        if not self.tuple_arguments:
            return list(arrays)
        each = (len(arrays) - self.positional + len(self.tuple_arguments)) // len(self.tuple_arguments)
        grouped: list[object] = []
        start = 0
        for position in range(self.positional):
            is_list = position in self.tuple_arguments
            grouped.append(arrays[start : start + each] if is_list else arrays[start])
            start += each if is_list else 1
        return grouped

    def check_attributes(self, attrs: Collection[str]) -> None:
        """Raises KernelError where *attrs* lack one that has no default."""
        missing = self.required.difference(attrs)
        if missing:
            raise KernelError(f"kernel {self.name}: attribute {', '.join(sorted(missing))} is missing")

    def __call__(self, *arrays: object, **attrs: object) -> Arrays:
        """Run on arrays; attributes that the kernel does not name are ignored, a missing one is a KernelError.

        So is an operation that numpy does not define for the dtypes, since the type relations of Relay take them all,
        and what it says of values that our own kernels hand on, such as sizes below 0 or beyond all memory.
        Infinities and NaNs are numbers like others: numpy does not warn of them, as compiled code does not.
        """
        self.check_attributes(attrs)
        given = attrs if self.takes_all else {k: attrs[k] for k in self.attributes if k in attrs}
        try:
            with np.errstate(all="ignore"):
                return self.function(*arrays, **given)
        except TypeError as error:
            if not str(getattr(self.function, "__module__", "numpy")).startswith(OWN):
                raise KernelError(f"kernel {self.name} failed: TypeError: {error}{_line_of(error)}") from error
            dtypes = ", ".join(dict.fromkeys(str(a.dtype) for a in arrays if isinstance(a, np.ndarray)))
            raise KernelError(f"kernel {self.name} is not defined for elements of {dtypes}: {error}") from error
        except (ArithmeticError, LookupError, ValueError) as error:
            if isinstance(error, UserError) or not str(getattr(self.function, "__module__", "numpy")).startswith(OWN):
                raise
            raise KernelError(f"kernel {self.name} cannot compute with these inputs: {error}") from error


def _line_of(error: BaseException) -> str:
    """`` (file.py:12)``: where in a vendor's code *error* was raised; nothing where that was in the call itself."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    return f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""


# the modules of byoc.runtime.kernels that register kernels; what folding constants asks for stands first
FAMILIES = (
    "movement.transform",
    "movement.creation",
    "movement.slicing",
    "binary",
    "elementwise",
    "compare",
    "reduce",
    "movement.layouts",
    "movement.check_indices",
    "movement.assign",
    "movement.positions",
    "movement.scatter",
    "annotation",
    "coupling",
    "debug",
    "determinant",
    "einsum",
    "fast_math",
    "fixed_point",
    "fourier",
    "ordering",
    "random",
    "sequences",
    "sparse",
    "sparse_matrix",
    "strings.elements",
    "strings.ngrams",
    "strings.tokens",
    "trees",
    "nn.dense",
    "nn.activation",
    "nn.norm",
    "nn.pad",
    "nn.pool",
    "nn.conv",
    "nn.conv_contrib",
    "nn.batch_blocks",
    "nn.bit_serial",
    "nn.correlation",
    "nn.loss",
    "nn.pool_gradient",
    "nn.recurrent",
    "nn.winograd",
    "images.boxes",
    "images.decoder",
    "images.dilation",
    "images.dynamic_images",
    "images.image",
    "images.image_sampling",
    "images.regions",
    "qnn.elementwise",
    "qnn.join",
    "qnn.pool",
    "qnn.products",
    "qnn.quantize",
    "qnn.requantize",
    "run_time.axes",
    "run_time.bounds",
    "run_time.frames",
    "run_time.leading",
    "run_time.patches",
    "run_time.resizing",
)


class NumpyKernels(MutableMapping[str, NumpyKernel]):
    """Kernels by name. A family is imported when a name is asked for that is not there yet; a listing imports all."""

    def __init__(self, families: Iterable[str]):
        self._kernels: dict[str, NumpyKernel] = {}
        self._waiting = list(families)

    def has_registered(self, name: str) -> bool:
        """Whether *name* is here already; imports nothing."""
        return name in self._kernels

    def load_all(self) -> None:
        """Import every family."""
        while self._waiting:
            self._load_next()

    def _load_next(self) -> None:
        family = self._waiting.pop(0)
        try:
            importlib.import_module(f"byoc.runtime.kernels.{family}")
        except BaseException:
            self._waiting.insert(0, family)
            raise

    def __contains__(self, name: object) -> bool:
        while name not in self._kernels and self._waiting:
            self._load_next()
        return name in self._kernels

    def __getitem__(self, name: str) -> NumpyKernel:
        found = self._kernels.get(name)
        if found is None and name in self:
            found = self._kernels[name]
        if found is None:
            raise KeyError(name)
        return found

    def __setitem__(self, name: str, kernel: NumpyKernel) -> None:
        self._kernels[name] = kernel

    def __delitem__(self, name: str) -> None:
        del self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        self.load_all()
        return iter(self._kernels)

    def __len__(self) -> int:
        self.load_all()
        return len(self._kernels)

    @property
    def loaded(self) -> int:
        """How many there are so far, without loading more."""
        return len(self._kernels)


KERNELS = NumpyKernels(FAMILIES)


def kernel(*names: str) -> Callable[[F], F]:
    """Register a numpy kernel under one or several operator names. Raises KernelError for a name that another has."""

    def register(function: F) -> F:
        for name in names:
            made = NumpyKernel.of(name, function)
            if KERNELS.has_registered(name) and KERNELS[name].source != made.source:
                raise KernelError(f"kernel {name!r} is registered twice: by {KERNELS[name].source} and {made.source}")
            KERNELS[name] = made
        return function

    return register


def get_kernel(name: str) -> NumpyKernel:
    """The kernel *name*. Raises KernelError with the nearest names."""
    try:
        return KERNELS[name]
    except KeyError:
        near = difflib.get_close_matches(name, KERNELS, n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise KernelError(f"there is no numpy kernel for {name!r}{hint}") from None
