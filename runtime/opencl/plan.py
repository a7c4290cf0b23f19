"""How the kernels of a function are launched: data beside the source, saved as ``plan.json``.

A function's buffers are numbered: its inputs, its constants, its outputs, then temporaries, which may serve several
stages one after the other. Kernels run in order, each with its buffers and then its sizes (``long``) as arguments. A
:data:`Number` is an int, the name of a size, or ``[operation, left, right]``. A launch has variants, kernels that
compute the same, of which a call takes the first whose bounds hold for its sizes. A variant has *extent* work-items
(rounded up to whole groups; the kernel itself ignores those beyond), or with *groups* that many groups. The local
size is a power of two, and a device with a lower limit takes a smaller power of two. A launch that *checks* indices has
one more argument, memory of :data:`FOUND_WORDS` numbers that is 0 before the run: the check that found an index outside
its dimension (its number and 1), the place, and the size of the dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from byoc.runtime.errors import ArtifactError
from byoc.runtime.signature import Signature

PLAN_VERSION = 2
FOUND_WORDS = 3  # of 64 bits
Number = int | str | list["Number"]

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max,
}


def evaluate(number: Number, sizes: Mapping[str, int]) -> int:
    """The value of *number* for a call with *sizes*.

    >>> evaluate(["mul", "N", 12], {"N": 5})
    60
    """
    if isinstance(number, int):
        return number
    if isinstance(number, str):
        return sizes[number]
    operation, left, right = number
    return _OPERATIONS[operation](evaluate(left, sizes), evaluate(right, sizes))  # type: ignore[index]


def check_number(number: object) -> Number:
    """*number* if it has the form of one. Raises ArtifactError when it has not."""
    if isinstance(number, str) or (isinstance(number, int) and not isinstance(number, bool)):
        return number
    if isinstance(number, list) and len(number) == 3 and number[0] in _OPERATIONS:
        return [number[0], check_number(number[1]), check_number(number[2])]
    raise ArtifactError(f"plan.json: expected a number, a size or an operation on two, got {number!r}")


@dataclass(frozen=True)
class Buffer:
    """Memory of the device: its bytes."""

    bytes: Number


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
    """A kernel, the schedule that it follows, and the sizes that it is for: those in all bounds of *when*."""

    schedule: str
    kernel: str
    extent: Number
    local: int
    groups: bool = False
    when: tuple[Bound, ...] = ()

    def shape(self, sizes: Mapping[str, int], max_local: int) -> tuple[int, int]:
        """The global and the local size for a device whose groups have at most *max_local* work-items."""
        local = self.local
        while local > max_local:
            local //= 2
        extent = evaluate(self.extent, sizes)
        return (extent if self.groups else -(-extent // local)) * local, local


@dataclass(frozen=True)
class Launch:
    """One step: the buffers and sizes that are its kernel's arguments, and the kernels, of which one is launched."""

    buffers: tuple[int, ...]
    sizes: tuple[str, ...]
    variants: tuple[Variant, ...]
    checks: bool = False

    def to_json(self) -> dict[str, object]:
        """As data; what checks nothing does not say so."""
        data = asdict(self)
        return data if self.checks else {k: v for k, v in data.items() if k != "checks"}

    def choose(self, sizes: Mapping[str, int]) -> Variant:
        """The first variant that is for these sizes; the last is for all."""
        return next((v for v in self.variants[:-1] if all(b.holds(sizes) for b in v.when)), self.variants[-1])


@dataclass(frozen=True)
class FunctionPlan:
    """A symbol: its signature, buffers and launches."""

    signature: Signature
    buffers: tuple[Buffer, ...]
    launches: tuple[Launch, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "signature": self.signature.to_json(),
            "buffers": [b.bytes for b in self.buffers],
            "launches": [launch.to_json() for launch in self.launches],
        }

    @staticmethod
    def from_json(data: Mapping[str, object]) -> FunctionPlan:
        """Raises ArtifactError when something is missing or of the wrong form."""
        try:
            plan = FunctionPlan(
                Signature.from_json(data["signature"]),  # type: ignore[arg-type]
                tuple(Buffer(check_number(b)) for b in data["buffers"]),  # type: ignore[attr-defined]
                tuple(_launch(item) for item in data["launches"]),  # type: ignore[attr-defined]
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ArtifactError):
                raise
            raise ArtifactError(f"plan.json does not describe a function: {error!r}") from error
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

    def check(self) -> None:
        """Raises ArtifactError when a launch names a buffer that there is not."""
        own = self.first_output + len(self.signature.outputs)
        used: Sequence[int] = [b for launch in self.launches for b in launch.buffers]
        if not all(launch.variants for launch in self.launches):
            raise ArtifactError(f"plan.json: a launch of {self.signature.symbol} has no kernel")
        if len(self.buffers) < own or any(not 0 <= b < len(self.buffers) for b in used):
            raise ArtifactError(f"plan.json: {self.signature.symbol} uses a buffer that it does not declare")


def _launch(data: Mapping[str, object]) -> Launch:
    return Launch(
        tuple(int(b) for b in data["buffers"]),  # type: ignore[attr-defined]
        tuple(str(s) for s in data["sizes"]),  # type: ignore[attr-defined]
        tuple(_variant(item) for item in data["variants"]),  # type: ignore[attr-defined]
        bool(data.get("checks", False)),
    )


def _variant(data: Mapping[str, object]) -> Variant:
    return Variant(
        str(data["schedule"]),
        str(data["kernel"]),
        check_number(data["extent"]),
        int(data["local"]),  # type: ignore[call-overload]
        bool(data["groups"]),
        tuple(_bound(item) for item in data["when"]),  # type: ignore[attr-defined]
    )


def _bound(data: Mapping[str, object]) -> Bound:
    most = data["most"]
    return Bound(check_number(data["number"]), int(data["least"]), None if most is None else int(most))  # type: ignore
