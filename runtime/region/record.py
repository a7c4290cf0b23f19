"""What is known of a region at run time, and the record that is made where its backend fails."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from byoc.runtime.core.errors import ByocError, DeviceError
from byoc.runtime.core.strict_json import at, object_of, text_of, texts_of

# where a region's backend can fail: its module is read, its device asked for, its constants given, it runs
LOAD, DEVICE, INITIALIZE, LAUNCH = "load", "device", "initialize", "launch"
STAGES = (LOAD, DEVICE, INITIALIZE, LAUNCH)
NODES_NAMED = 3
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Region:
    """A backend's share of a model: the target that compiled it, and the ONNX nodes that are in it."""

    target: str
    nodes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {"target": self.target, "nodes": list(self.nodes)}

    @staticmethod
    def from_json(data: object, where: str = "a region") -> Region:
        """The region that :meth:`to_json` gave. Raises ArtifactError for another."""
        fields = object_of(data, where, ("target", "nodes"))
        return Region(text_of(fields["target"], at(where, "target")), texts_of(fields["nodes"], at(where, "nodes")))


@dataclass(frozen=True)
class Fallback:
    """A region that ran on the host instead: its symbol, where its backend failed, with which exception, on what.

    ``shapes`` are those of the inputs of the run that it failed in.
    """

    subgraph: str
    target: str
    stage: str
    exception: str
    message: str
    nodes: tuple[str, ...]
    shapes: Shapes

    def to_json(self) -> dict[str, object]:
        """The record as values that ``json.dumps`` takes."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{describe(self.subgraph, self.target, self.nodes)} failed at {self.stage}: {self.message}"


class StageError(Exception):
    """The error of a stage before the launch; *error* is what was raised."""

    def __init__(self, stage: str, error: Exception):
        super().__init__(str(error))
        self.stage, self.error = stage, error


def describe(symbol: str, target: str, nodes: tuple[str, ...]) -> str:
    """A region for a message: its symbol, its first nodes, its target."""
    more = ", ..." if len(nodes) > NODES_NAMED else ""
    named = f" (nodes {', '.join(nodes[:NODES_NAMED])}{more})" if nodes else ""
    return f"region {symbol}{named} on {target}"


def stage_of(error: Exception) -> tuple[str, Exception]:
    """The stage at which *error* was raised, and the error itself."""
    return (error.stage, error.error) if isinstance(error, StageError) else (LAUNCH, error)


def explained(symbol: str, region: Region, stage: str, error: Exception) -> Exception:
    """*error* in a sentence with region, nodes and stage: of its own kind where it is ours, else a DeviceError."""
    kind = type(error) if isinstance(error, ByocError) else DeviceError
    text = str(error) if isinstance(error, ByocError) else f"{type(error).__name__}: {error}"
    place = describe(symbol, region.target, region.nodes)
    return kind(f"{place} failed at {stage}: {text}; compile with fallback=True to run it on the host then")
