"""How a module's calls run: on which device, and how kernels get into the queue. Saved in ``plan.json``."""

from __future__ import annotations

from dataclasses import dataclass, fields

from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.strict_json import at, object_of, text_of

MEASURED = "auto"
FLUSHES = ("none", "1", "2", "10", MEASURED)
RECORDS = ("none", "batch")


@dataclass(frozen=True)
class RunOptions:
    """Empty where nothing was said.

    Attributes:
        flush: after how many kernels the queue is flushed, of :data:`FLUSHES`; ``auto`` measures it once for a device.
        record: whether kernels are recorded where the device offers that, of :data:`RECORDS`.
        device: which device it is, as ``devices.choose_device`` reads it.
    """

    flush: str = ""
    record: str = ""
    device: str = ""

    def to_json(self) -> dict[str, object]:
        """What was said."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name)}

    @staticmethod
    def from_json(data: object, where: str) -> RunOptions:
        """Raises ArtifactError for words that are none."""
        options = object_of(data, where, (), tuple(f.name for f in fields(RunOptions)))
        found = RunOptions(**{name: text_of(value, at(where, name)) for name, value in options.items()})
        for name, value, known in (("flush", found.flush, FLUSHES), ("record", found.record, RECORDS)):
            if value not in ("", *known):
                raise ArtifactError(f"{at(where, name)}: expected one of {', '.join(known)}, found {value!r}")
        return found
