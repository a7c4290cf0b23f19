"""A model's whole program as the artefact keeps it, and the contract with the code that was generated for it.

``int32_t <symbol>(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team, Externals *externals)``:
*args* are the inputs, the constants and the outputs. Where every size is a number, the values between have their
places in the code, in ``arena_bytes`` bytes. Else ``<symbol>_buffers(sizes, bytes)`` returns how many bytes each buffer
takes, :attr:`WholeProgram.lifetimes` in which steps it is needed, and the chosen offsets follow the sizes. A program
with a ``batch`` computes one item of so many after the other, in an arena for one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from byoc.runtime.core.bound_sizes import is_computable
from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.signature import Signature, TensorSpec, symbol_of
from byoc.runtime.core.strict_json import at, list_of, number_of, numbered, object_of, switch_of, text_of, texts_of


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
    def from_json(data: object, where: str, number: int) -> ExternalCall:
        """The call at place *number* that :meth:`to_json` gave. Raises ArtifactError for another."""
        fields = object_of(data, where, ("function", "node", "inputs", "outputs"), ("starts", "waits_for"))
        inputs, outputs = (
            tuple(TensorSpec.from_json(s, place) for place, s in numbered(fields, k, where))
            for k in ("inputs", "outputs")
        )
        waits_for = fields.get("waits_for")
        if waits_for is not None:
            waits_for = number_of(waits_for, at(where, "waits_for"), 0, number - 1)
        starts = switch_of(fields.get("starts", False), at(where, "starts"))
        symbol, node = symbol_of(fields["function"], at(where, "function")), text_of(fields["node"], at(where, "node"))
        return ExternalCall(symbol, node, inputs, outputs, starts, waits_for)


@dataclass(frozen=True)
class WholeProgram:
    """The entry's description; ``constants`` are a symbol and the position among its constants.

    ``arena_bytes`` is None where a size is known only at run time, and ``lifetimes`` is empty where none is.
    ``operations`` estimates the arithmetic of one run, or of one item of a ``batch``, a number or the name of a size.
    ``checks`` name the checks of indices by their numbers.
    """

    symbol: str
    constants: tuple[tuple[str, int], ...]
    sizes: tuple[str, ...]
    externals: tuple[ExternalCall, ...]
    arena_bytes: int | None
    lifetimes: tuple[tuple[int, int], ...]
    operations: int
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    checks: tuple[str, ...] = ()
    batch: str = ""

    @property
    def buffers_symbol(self) -> str:
        """The function that returns the bytes of each buffer, where they are planned at run time."""
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
            "inputs": [s.to_json() for s in self.inputs],
            "outputs": [s.to_json() for s in self.outputs],
            **({"checks": list(self.checks)} if self.checks else {}),
            **({"batch": self.batch} if self.batch else {}),
        }

    @staticmethod
    def from_json(data: object, where: str) -> WholeProgram:
        """Raises ArtifactError for anything but what :meth:`to_json` gives."""
        fields = object_of(data, where, _KEYS, ("checks", "batch"))
        arena = fields["arena_bytes"]
        inputs, outputs = (
            tuple(TensorSpec.from_json(s, place) for place, s in numbered(fields, k, where))
            for k in ("inputs", "outputs")
        )
        program = WholeProgram(
            symbol_of(fields["symbol"], at(where, "symbol"), of_c=True),
            tuple(_constant(c, place) for place, c in numbered(fields, "constants", where)),
            texts_of(fields["sizes"], at(where, "sizes")),
            tuple(
                ExternalCall.from_json(e, place, k) for k, (place, e) in enumerate(numbered(fields, "externals", where))
            ),
            None if arena is None else number_of(arena, at(where, "arena_bytes")),
            tuple(_lifetime(life, place) for place, life in numbered(fields, "lifetimes", where)),
            number_of(fields["operations"], at(where, "operations"), most=MOST_OPERATIONS),
            inputs,
            outputs,
            texts_of(fields.get("checks", []), at(where, "checks")),
            text_of(fields.get("batch", ""), at(where, "batch")),
        )
        program._check(where)
        return program

    def _check(self, where: str) -> None:
        """Raises ArtifactError where a part does not fit another."""
        if self.arena_bytes is not None and self.lifetimes:
            raise ArtifactError(f"{where}: buffers with a lifetime, and an arena that is planned already")
        if self.batch and not self.batch.isdecimal() and self.batch not in self.sizes:
            raise ArtifactError(f"{where}.batch: {self.batch!r} is none of the sizes, {list(self.sizes)}")
        sizes = tuple(dict.fromkeys(d for spec in self.inputs for d in spec.shape if isinstance(d, str)))
        sizes_of_inputs, derived = self.sizes[: len(sizes)], self.sizes[len(sizes) :]
        if sizes_of_inputs != sizes:
            raise ArtifactError(
                f"{where}.sizes: expected those of the inputs, {list(sizes)}, found {list(sizes_of_inputs)}"
            )
        for name in derived:
            if name in sizes or not is_computable(name, sizes):
                raise ArtifactError(f"{where}.sizes: {name[:80]!r} does not follow from the sizes of the inputs")
        for external in self.externals:
            started = None if external.waits_for is None else self.externals[external.waits_for]
            if started is not None and (not started.starts or started.function != external.function):
                raise ArtifactError(f"{where}.externals: {external.node} waits for what is not started")
        specs = (*self.outputs, *(s for e in self.externals for s in (*e.inputs, *e.outputs)))
        named = [d for spec in specs for d in spec.shape if not isinstance(d, int)]
        unknown = [d for d in named if d is None or not is_computable(d, sizes)]
        if unknown:
            raise ArtifactError(f"{where}: the size {unknown[0]!r} is none that an input determines")


MOST_STEPS = 1 << 22
MOST_OPERATIONS = 1 << 62
_KEYS = ("symbol", "constants", "sizes", "externals", "arena_bytes", "lifetimes", "operations", "inputs", "outputs")


def _constant(data: object, where: str) -> tuple[str, int]:
    symbol, position = list_of(data, where, 2)
    return symbol_of(symbol, where), number_of(position, where)


def _lifetime(data: object, where: str) -> tuple[int, int]:
    first, last = list_of(data, where, 2)
    begin = number_of(first, where, 0, MOST_STEPS)
    return begin, number_of(last, where, begin, MOST_STEPS)


# The contract of generated code: a SHA-256 of the sizes, order and lifetimes in its JSON, which the code trusts. The
# code carries the hash, which is compared before it is loaded, so that an edited description is refused.

_MARK = re.compile(rb"byoc-contract ([0-9a-f]{64})")


def contract_of(
    signatures: Sequence[Signature], whole: WholeProgram | None = None, sanitizers: Sequence[str] = ()
) -> str:
    """The contract of code with these functions, built with *sanitizers*, in hexadecimal digits."""
    facts: list[object] = [[s.to_json() for s in signatures], None if whole is None else whole.to_json()]
    return digest_of([*facts, list(sanitizers)] if sanitizers else facts)


def digest_of(facts: object) -> str:
    """The SHA-256 of *facts*, values that JSON holds, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def contract_text(contract: str) -> str:
    """What stands in the code for *contract*, in a constant or in a comment."""
    return f"byoc-contract {contract}"


def check_contract(code: bytes, expected: str, what: str) -> None:
    """Raises ArtifactError unless *code* carries the contract *expected*; *what* names the code in the sentence."""
    found = {match[1].decode() for match in _MARK.finditer(code)}
    if found != {expected}:
        why = "was compiled for other functions than are described beside it" if found else "says not what it is for"
        raise ArtifactError(f"{what} {why}; compile the model again")
