"""How the kernels of a function are launched: data beside the source, saved as ``plan.json``.

A function's buffers are numbered: its inputs, its constants, its outputs, then temporaries. One of a constant or a
temporary may be an image instead (``images.py``), of a constant's or a temporary's floats. Where they lie is decided
for the sizes of a call and the device's alignment (``device_memory.py``), by the first and last launch that uses each.
Kernels run in order; the arguments of each are its buffers, then where those of them begin that are neither constants
nor images, in units of :data:`ALIGNMENT` bytes, then its sizes (all ``long``). A :data:`Number` is an int, the name of
a size, or ``[operation, left, right]``. A launch has variants, kernels that compute the same, of which a call takes the
first whose bounds hold for its sizes. The buffers of a launch that takes them *whole* begin at their first byte, in
memory of their own, and its kernel does not get an offset. A variant has *extent* work-items (rounded up to whole
groups; the kernel itself ignores those beyond), or with *groups* that many groups. A device with a limit below the
local size takes the largest divisor of it within the limit; where it is 0 the driver chooses, and no work-item is
beyond. A launch that *checks* indices has one more argument, memory of :data:`FOUND_WORDS` numbers that is 0 before the
run: the check that found an index outside its dimension (its number and 1), the place, and the size of the dimension.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from byoc.runtime.core.bound_sizes import Sizes, is_computable
from byoc.runtime.core.errors import ArtifactError, DeviceError
from byoc.runtime.core.signature import Signature, TensorSpec, item_bytes, symbol_of
from byoc.runtime.core.strict_json import (
    MOST_NUMBER,
    at,
    list_of,
    number_of,
    numbered,
    object_of,
    switch_of,
    text_of,
    texts_of,
)
from byoc.runtime.opencl.commands.options import RunOptions
from byoc.runtime.opencl.images import COMPONENT_BYTES, ImageSize
from byoc.runtime.opencl.numbers import Number, check_number, counted, evaluate

PLAN_VERSION = 5
MOST_LOCAL = 1 << 16  # work-items of a group
MOST_TEXELS = 1 << 20  # along one side of an image
FOUND_WORDS = 3  # of 64 bits


@dataclass(frozen=True)
class Buffer:
    """Memory of the device: its bytes, and the *image* that it is, where it is no buffer."""

    bytes: Number
    image: ImageSize | None = None

    @staticmethod
    def of_image(image: ImageSize) -> Buffer:
        """The memory of an image."""
        return Buffer(image.bytes, image)

    def to_json(self) -> object:
        """The bytes of a buffer, or the width, the height and the dtype of an image."""
        return self.bytes if self.image is None else asdict(self.image)


@dataclass(frozen=True)
class Bound:
    """Sizes for which *number* is at least *least* and at most *most*."""

    number: Number
    least: int = 0
    most: int | None = None

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether these are among them."""
        value = evaluate(self.number, sizes)
        return self.least <= value and (self.most is None or value <= self.most)


@dataclass(frozen=True)
class Variant:
    """A kernel, the schedule that it follows, and the sizes that it is for: those in all bounds of *when*.

    *exact*: its work-groups have *local* work-items and no fewer.
    """

    schedule: str
    kernel: str
    extent: Number
    local: int
    groups: bool = False
    when: tuple[Bound, ...] = ()
    exact: bool = False

    def has_work(self, sizes: Mapping[str, int]) -> bool:
        """Whether a call with *sizes* has an item for it."""
        return counted(self.extent, sizes) > 0

    def shape(self, sizes: Mapping[str, int], max_local: int) -> tuple[int, int]:
        """The global and the local size (0: the driver's) where groups have at most *max_local* work-items.

        Raises DeviceError where these are too few for a kernel that needs more.
        """
        local = self.local
        if self.exact and local > max_local:
            raise DeviceError(
                f"the kernel {self.kernel} has work-groups of {local} work-items, and the device takes {max_local}: "
                "compile the model on a machine that has this device"
            )
        extent = counted(self.extent, sizes)
        if not local:
            return extent, 0
        if local > max_local:
            local = max(d for d in range(1, max_local + 1) if local % d == 0)
        return (extent if self.groups else -(-extent // local)) * local, local


@dataclass(frozen=True)
class KernelWork:
    """What a launch has to do, counted when its code was made, for profiles alone: plans without it are valid.

    Attributes:
        operations: arithmetic on data, a multiply-add being two; what finds places in memory is not among it.
        bytes: what has to be read and written at least: each element that is used once, each result once.
        dtype: what most of it is computed in.
        operators: those that the launch computes a part of.
    """

    operations: Number
    bytes: Number
    dtype: str = "float32"
    operators: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """As data."""
        operators = {"operators": list(self.operators)} if self.operators else {}
        return {"operations": self.operations, "bytes": self.bytes, "dtype": self.dtype, **operators}

    @staticmethod
    def from_json(data: object, where: str, names: frozenset[str]) -> KernelWork:
        """The work that :meth:`to_json` gave, over the sizes *names*. Raises ArtifactError for another."""
        fields = object_of(data, where, ("operations", "bytes", "dtype"), ("operators",))
        return KernelWork(
            check_number(fields["operations"], names),
            check_number(fields["bytes"], names),
            text_of(fields["dtype"], at(where, "dtype")),
            texts_of(fields.get("operators", ()), at(where, "operators")),
        )


@dataclass(frozen=True)
class Launch:
    """One step: the buffers and sizes that are its kernel's arguments, and the kernels, of which one is launched.

    *nodes* are the ONNX nodes that it computes a part of, and *work* is what it has to do, both for profiles. *whole*:
    the kernel takes buffers alone, not where they begin, as one that a vendor wrote, which reads what was there before
    and fills the others; its *dtypes* are those of its buffers, for whoever looks at them (``BYOC_CHECK``).
    """

    buffers: tuple[int, ...]
    sizes: tuple[str, ...]
    variants: tuple[Variant, ...]
    checks: bool = False
    nodes: tuple[str, ...] = ()
    work: KernelWork | None = None
    whole: bool = False
    dtypes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """As data, without what is not so, as for one that checks nothing or was not counted."""
        left_out = ["work", *(name for name in ("checks", "nodes", "whole", "dtypes") if not getattr(self, name))]
        work = {} if self.work is None else {"work": self.work.to_json()}
        return {**{name: value for name, value in asdict(self).items() if name not in left_out}, **work}

    def choose(self, sizes: Mapping[str, int]) -> Variant:
        """The first variant that is for these sizes; the last is for all."""
        return next((v for v in self.variants[:-1] if all(b.holds(sizes) for b in v.when)), self.variants[-1])


@dataclass(frozen=True)
class FunctionPlan:
    """A symbol: its signature, buffers and launches, and what is to be reported of its memory (``notes``)."""

    signature: Signature
    buffers: tuple[Buffer, ...]
    launches: tuple[Launch, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """As data; where nothing is reported of the memory, it does not say so."""
        return {
            "signature": self.signature.to_json(),
            "buffers": [b.to_json() for b in self.buffers],
            "launches": [launch.to_json() for launch in self.launches],
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    @staticmethod
    def from_json(data: object, where: str = "plan.json") -> FunctionPlan:
        """Raises ArtifactError when something is missing or of the wrong form."""
        fields = object_of(
            data, f"{where} does not describe a function", ("signature", "buffers", "launches"), ("notes",)
        )
        signature = Signature.from_json(fields["signature"], at(where, "signature"))
        names = frozenset(signature.size_names)
        plan = FunctionPlan(
            signature,
            tuple(_buffer(b, place, names) for place, b in numbered(fields, "buffers", where)),
            tuple(_launch(item, place, names) for place, item in numbered(fields, "launches", where)),
            texts_of(fields.get("notes", ()), at(where, "notes")),
        )
        plan.check()
        return plan

    @property
    def checks(self) -> bool:
        """Whether a launch checks indices."""
        return any(launch.checks for launch in self.launches)

    @property
    def first_constant(self) -> int:
        return len(self.signature.inputs)

    @property
    def first_output(self) -> int:
        return self.first_constant + len(self.signature.constants)

    def placed(self, launch: Launch) -> tuple[int, ...]:
        """The buffers of *launch* whose offsets its kernel gets: all but constants and images."""
        if launch.whole:
            return ()
        own = [b for b in launch.buffers if not self.first_constant <= b < self.first_output]
        return tuple(b for b in own if self.buffers[b].image is None)

    @property
    def whole(self) -> frozenset[int]:
        """The buffers that a launch takes whole."""
        return frozenset(b for launch in self.launches if launch.whole for b in launch.buffers)

    def check(self) -> None:
        """Raises ArtifactError when a launch names a buffer that there is not."""
        own = self.first_output + len(self.signature.outputs)
        used = [b for launch in self.launches for b in launch.buffers]
        if not all(launch.variants for launch in self.launches):
            raise ArtifactError(f"plan.json: a launch of {self.signature.symbol} has no kernel")
        if len(self.buffers) < own or any(not 0 <= b < len(self.buffers) for b in used):
            raise ArtifactError(f"plan.json: {self.signature.symbol} uses a buffer that it does not declare")
        self._check_images()
        if not self.signature.size_names:
            self.buffer_bytes({})

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The inputs, constants and outputs: what the first buffers are."""
        return (*self.signature.inputs, *self.signature.constants, *self.signature.outputs)

    @property
    def images(self) -> dict[int, ImageSize]:
        """The buffers that are images, by number."""
        return {k: b.image for k, b in enumerate(self.buffers) if b.image is not None}

    def _check_images(self) -> None:
        """Raises ArtifactError for an argument that is an image, and for a constant's image that is not its own."""
        signature = self.signature
        for k, spec in enumerate(self.specs):
            image = self.buffers[k].image
            if image is None:
                continue
            if not self.first_constant <= k < self.first_output:
                raise ArtifactError(
                    f"plan.json: {spec.name} of {signature.symbol} is an argument, and cannot be an image"
                )
            own = ImageSize.of(tuple(d if isinstance(d, int) else 0 for d in spec.shape), spec.dtype)
            if own != image:
                raise ArtifactError(
                    f"plan.json: the image of {spec.name}{spec} in {signature.symbol} has {image.width} by "
                    f"{image.height} texels of {image.dtype}, which is not the image of such a tensor"
                )

    def buffer_bytes(self, sizes: Mapping[str, int]) -> list[int]:
        """The bytes of each buffer for a call with *sizes*.

        Raises ArtifactError where one that is an argument or a constant is not as large as that.
        """
        found = [counted(buffer.bytes, sizes) for buffer in self.buffers]
        signature = self.signature
        for spec, size in zip(self.specs, found, strict=False):
            if any(not (isinstance(d, int) or Sizes(sizes).determines(d)) for d in spec.shape):
                raise ArtifactError(
                    f"plan.json: {spec.name}{spec} of {signature.symbol} has a size that no argument determines"
                )
            wanted = math.prod(spec.concrete_shape(sizes)) * item_bytes(spec.dtype, spec.name)
            if size < wanted:
                raise ArtifactError(
                    f"plan.json: the buffer of {spec.name} in {signature.symbol} has {size} bytes, "
                    f"and it takes {wanted}"
                )
        return found


def _buffer(data: object, where: str, names: frozenset[str]) -> Buffer:
    if not isinstance(data, dict):
        return Buffer(check_number(data, names))
    fields = object_of(data, where, ("width", "height", "dtype"))
    dtype = text_of(fields["dtype"], at(where, "dtype"))
    if dtype not in COMPONENT_BYTES:
        raise ArtifactError(f"{where}.dtype: expected one of {', '.join(COMPONENT_BYTES)}, found {reprlib.repr(dtype)}")
    width, height = (number_of(fields[k], at(where, k), 1, MOST_TEXELS) for k in ("width", "height"))
    return Buffer.of_image(ImageSize(width, height, dtype))


def _launch(data: object, where: str, names: frozenset[str]) -> Launch:
    fields = object_of(data, where, ("buffers", "sizes", "variants"), ("checks", "nodes", "work", "whole", "dtypes"))
    sizes = texts_of(fields["sizes"], at(where, "sizes"))
    if not all(is_computable(size, names) for size in sizes):
        raise ArtifactError(f"{where}.sizes: {', '.join(sizes)} are not all determined by the inputs")
    return Launch(
        tuple(number_of(b, place) for place, b in numbered(fields, "buffers", where)),
        sizes,
        tuple(_variant(item, place, names) for place, item in numbered(fields, "variants", where)),
        switch_of(fields.get("checks", False), at(where, "checks")),
        texts_of(fields.get("nodes", ()), at(where, "nodes")),
        KernelWork.from_json(fields["work"], at(where, "work"), names) if "work" in fields else None,
        switch_of(fields.get("whole", False), at(where, "whole")),
        texts_of(fields.get("dtypes", ()), at(where, "dtypes")),
    )


def _variant(data: object, where: str, names: frozenset[str]) -> Variant:
    fields = object_of(data, where, ("schedule", "kernel", "extent", "local", "groups", "when", "exact"))
    local = number_of(fields["local"], at(where, "local"), 0, MOST_LOCAL)
    groups, exact = (switch_of(fields[name], at(where, name)) for name in ("groups", "exact"))
    if (groups and local & (local - 1)) or (not local and (groups or exact)):
        raise ArtifactError(f"{where}.local: the groups of this kernel have a power of two work-items, found {local}")
    return Variant(
        text_of(fields["schedule"], at(where, "schedule")),
        symbol_of(fields["kernel"], at(where, "kernel"), of_c=True),
        check_number(fields["extent"], names),
        local,
        groups,
        tuple(_bound(item, place, names) for place, item in numbered(fields, "when", where)),
        exact,
    )


def _bound(data: object, where: str, names: frozenset[str]) -> Bound:
    fields = object_of(data, where, ("number", "least", "most"))
    most = fields["most"]
    return Bound(
        check_number(fields["number"], names),
        number_of(fields["least"], at(where, "least"), -MOST_NUMBER),
        None if most is None else number_of(most, at(where, "most"), -MOST_NUMBER),
    )


def plans_from_json(data: object, where: str) -> list[FunctionPlan]:
    """The plans in a ``plan.json``. Raises ArtifactError for one of another version, or damaged."""
    if not isinstance(data, dict) or data.get("version") != PLAN_VERSION:
        raise ArtifactError(f"{where}: expected version {PLAN_VERSION}; made by another version of byoc")
    fields = object_of(data, where, ("version", "functions"), ("run",))
    plans = [FunctionPlan.from_json(f, at(where, k)) for k, f in enumerate(list_of(fields["functions"], where))]
    if len({plan.signature.symbol for plan in plans}) != len(plans):
        raise ArtifactError(f"{where}: a symbol stands in it twice")
    return plans


def run_options_from_json(data: object, where: str) -> RunOptions:
    """How the functions in a ``plan.json`` are run. Raises ArtifactError."""
    options = data.get("run", {}) if isinstance(data, dict) else {}
    return RunOptions.from_json(options, at(where, "run"))
