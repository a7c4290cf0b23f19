"""The profile of a model, as users hold it: a table, rows, JSON, and beside another profile."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.runtime.core.errors import UserError
from byoc.runtime.profile.page import profile_fragment, profile_page
from byoc.runtime.profile.record import ProfileRecord
from byoc.runtime.profile.rows import ProfileRow, rows
from byoc.runtime.profile.table import compared, table
from byoc.runtime.profile.trace import trace


@dataclass(frozen=True)
class RunProfile(ProfileRecord):
    """What ``Library.profile`` gives; ``print`` shows its table by kernel, ``to_json`` is what a file holds."""

    def rows(self, by: str = "kernel") -> list[ProfileRow]:
        """What each ``region``, ``kernel``, ``operator`` or ONNX ``node`` takes, the longest first.

        Raises UserError for another level.
        """
        return rows(self, by)

    def table(self, by: str = "kernel", most: int | None = 40) -> str:
        """The *most* longest rows as text (all for None). Raises UserError for an unknown level."""
        return table(self, by, most)

    def compare(self, other: ProfileRecord, by: str = "kernel", most: int | None = 40) -> str:
        """This profile beside *other*, which was before: medians by row, what differs most first.

        Raises UserError for what is no profile, and for an unknown level.
        """
        if not isinstance(other, ProfileRecord):
            raise UserError(f"compare takes another profile, got {type(other).__name__}")
        return compared(other, self, by, most)

    def trace(self) -> dict[str, object]:
        """The runs in Chrome's trace-event format, for ``json.dump``: Perfetto (ui.perfetto.dev) shows it."""
        return trace(self)

    def to_html(self, graph: str = "") -> str:
        """A page of its own: bars, a time line, rows to sort and search, and the SVG of the *graph* that ran, where it
        is given; nothing is fetched.
        """
        return profile_page(self, graph)

    def _repr_html_(self) -> str:
        return profile_fragment(self)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        count = len(self.functions)
        return f"RunProfile({self.model!r}: {count} functions, {len(self.seconds)} runs, {self.executor})"
