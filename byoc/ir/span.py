"""Where a node came from: the name of an ONNX node, or a place in a text.

A span survives every pass; a node made from several keeps them all in a :class:`SequentialSpan`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceName:
    """The name of a source: an ONNX node's name, or a file."""

    name: str

    def same_as(self, other: object) -> bool:
        """True when *other* names the same source: Relay keeps one object a name. Source: ``Object.same_as``."""
        return self == other


@dataclass(frozen=True, slots=True)
class Span:
    """One place in one source; lines and columns are 1-based, and 0 where the source has none (as in ONNX).

    The source may be None, where a place has none. Source: ``tvm.ir.Span``.
    """

    source_name: SourceName | None
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0

    @staticmethod
    def named(name: str) -> Span:
        """The span of a node that is known by its name alone."""
        return Span(SourceName(name))

    @property
    def spans(self) -> tuple[Span, ...]:
        return (self,)

    def same_as(self, other: object) -> bool:
        """True when *other* is the same place. Source: ``Object.same_as``."""
        return self == other

    def __str__(self) -> str:
        name = self.source_name.name if self.source_name is not None else ""
        return f"{name}:{self.line}:{self.column}" if self.line else name


@dataclass(frozen=True, slots=True)
class SequentialSpan:
    """Several places in their order: the origin of a node that a pass made from many."""

    spans: tuple[Span, ...]

    def same_as(self, other: object) -> bool:
        """True when *other* is the same places. Source: ``Object.same_as``."""
        return self == other

    def __str__(self) -> str:
        return " + ".join(str(span) for span in self.spans)


AnySpan = Span | SequentialSpan


def merge_spans(spans: Iterable[AnySpan | None]) -> AnySpan | None:
    """All distinct places of *spans*, in order; None when there is none."""
    flat: dict[Span, None] = {}
    for span in spans:
        if span is not None:
            flat.update(dict.fromkeys(span.spans))
    if not flat:
        return None
    return next(iter(flat)) if len(flat) == 1 else SequentialSpan(tuple(flat))


def span_names(span: AnySpan | None) -> tuple[str, ...]:
    """The source names in *span*, in order and without repetition: the ONNX nodes that a node came from."""
    if span is None:
        return ()
    if type(span) is Span:
        return () if span.source_name is None else (span.source_name.name,)
    return tuple(dict.fromkeys(s.source_name.name for s in span.spans if s.source_name is not None))
