"""The whole model as one function of a shared library: what it takes, where its values lie, and what it calls.

``int32_t <symbol>(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team, Externals *externals)``:
*args* are the inputs, the constants and the outputs. Where every size is a number, the values between have their
places in the code, in ``arena_bytes`` bytes. Else ``<symbol>_buffers(sizes, bytes)`` tells how many bytes each buffer
takes, :attr:`WholeProgram.lifetimes` in which steps it is needed, and the chosen offsets follow the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from byoc.runtime.signature import TensorSpec


@dataclass(frozen=True)
class ExternalCall:
    """A function that the program does not contain: its symbol, the node, and its arrays.

    One that can be started may stand twice: with ``starts``, and then, with ``waits_for`` the position of that.
    """

    function: str
    node: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    starts: bool = False
    waits_for: int | None = None

    def to_json(self) -> dict[str, object]:
        phase = {"starts": True} if self.starts else {} if self.waits_for is None else {"waits_for": self.waits_for}
        return {
            "function": self.function,
            "node": self.node,
            "inputs": [s.to_json() for s in self.inputs],
            "outputs": [s.to_json() for s in self.outputs],
            **phase,
        }

    @staticmethod
    def from_json(data: Mapping[str, object]) -> ExternalCall:
        inputs, outputs = (
            tuple(TensorSpec.from_json(s) for s in data[k])  # type: ignore[attr-defined]
            for k in ("inputs", "outputs")
        )
        waits_for = data.get("waits_for")
        if waits_for is not None and not isinstance(waits_for, int):
            raise TypeError(f"waits_for is a position, got {waits_for!r}")
        starts = bool(data.get("starts", False))
        return ExternalCall(str(data["function"]), str(data["node"]), inputs, outputs, starts, waits_for)


@dataclass(frozen=True)
class WholeProgram:
    """The entry's description; ``constants`` are a symbol and the position among its constants.

    ``arena_bytes`` is None where a size is known only at run time, and ``lifetimes`` is empty where none is.
    ``operations`` estimates the arithmetic of one run. ``checks`` name the checks of indices by their numbers.
    """

    symbol: str
    constants: tuple[tuple[str, int], ...]
    sizes: tuple[str, ...]
    externals: tuple[ExternalCall, ...]
    arena_bytes: int | None
    lifetimes: tuple[tuple[int, int], ...]
    operations: int
    checks: tuple[str, ...] = ()

    @property
    def buffers_symbol(self) -> str:
        """The function that tells the bytes of each buffer, where they are planned at run time."""
        return f"{self.symbol}_buffers"

    def to_json(self) -> dict[str, object]:
        return {
            "symbol": self.symbol,
            "constants": [list(c) for c in self.constants],
            "sizes": list(self.sizes),
            "externals": [e.to_json() for e in self.externals],
            "arena_bytes": self.arena_bytes,
            "lifetimes": [list(life) for life in self.lifetimes],
            "operations": self.operations,
            **({"checks": list(self.checks)} if self.checks else {}),
        }

    @staticmethod
    def from_json(data: Mapping[str, object]) -> WholeProgram:
        """Raises KeyError, TypeError or ValueError for anything but what :meth:`to_json` gives."""
        arena = data["arena_bytes"]
        return WholeProgram(
            str(data["symbol"]),
            tuple((str(symbol), int(k)) for symbol, k in data["constants"]),  # type: ignore[attr-defined]
            tuple(str(s) for s in data["sizes"]),  # type: ignore[attr-defined]
            tuple(ExternalCall.from_json(e) for e in data["externals"]),  # type: ignore[attr-defined]
            None if arena is None else int(arena),  # type: ignore[call-overload]
            tuple((int(first), int(last)) for first, last in data["lifetimes"]),  # type: ignore[attr-defined]
            int(data["operations"]),  # type: ignore[call-overload]
            tuple(str(c) for c in data.get("checks", ())),  # type: ignore[attr-defined]
        )
