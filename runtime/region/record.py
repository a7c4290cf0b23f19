"""What is known of a region at run time, and the record that is made where its backend fails."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from byoc.runtime.core.errors import HOST_ADVICE, ArtifactError, ByocError, DeviceError, vendors_text
from byoc.runtime.core.signature import Signature
from byoc.runtime.core.strict_json import at, list_of, number_of, numbered, object_of, text_of, texts_of

# where a region's backend can fail when it is compiled: its graph is read, its module made
CONVERT, BUILD = "convert", "build"
# and when it runs: its module is read, its device asked for, its constants given, it runs
LOAD, DEVICE, INITIALIZE, LAUNCH = "load", "device", "initialize", "launch"
WARM = "warming"  # no failure: its device is being prepared, and the host computes until then
NODES_NAMED = 3
READ_ONLY = "read-only"  # numpy's words for what may not be written to
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Region:
    """A backend's share of a model: the target that compiled it, and the ONNX nodes that are in it.

    ``operators`` are the Relay operators and composites in it, for messages about a model without node names;
    ``signature`` is what its function takes and gives, ``seconds`` what a run of it may take, where that is known.
    """

    target: str
    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    signature: Signature | None = None
    seconds: float | None = None

    def to_json(self) -> dict[str, object]:
        data: dict[str, object] = {"target": self.target, "nodes": list(self.nodes)}
        if self.operators:
            data["operators"] = list(self.operators)
        if self.signature is not None:
            data["signature"] = self.signature.to_json()
        return data if self.seconds is None else {**data, "seconds": self.seconds}

    @staticmethod
    def from_json(data: object, where: str = "a region") -> Region:
        """The region that :meth:`to_json` gave. Raises ArtifactError for another."""
        fields = object_of(data, where, ("target", "nodes"), ("operators", "signature", "seconds"))
        signature = fields.get("signature")
        return Region(
            text_of(fields["target"], at(where, "target")),
            texts_of(fields["nodes"], at(where, "nodes")),
            texts_of(fields.get("operators", []), at(where, "operators")),
            None if signature is None else Signature.from_json(signature, at(where, "signature")),
            _seconds(fields.get("seconds"), at(where, "seconds")),
        )

    def describe(self, symbol: str) -> str:
        """The region, whose function is called *symbol*, for a message."""
        return describe(symbol, self.target, self.nodes, self.operators)


def _seconds(data: object, where: str) -> float | None:
    if data is None or (isinstance(data, (int, float)) and not isinstance(data, bool) and 0 < data < math.inf):
        return data
    raise ArtifactError(f"{where}: expected a number of seconds above 0")


@dataclass(frozen=True)
class Fallback:
    """A region that ran on the host instead: its symbol, where its backend failed, with which exception, on what.

    ``shapes`` are those of the inputs of the run that it failed in; none where it was when it was compiled.
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
        lists = {"nodes": list(self.nodes), "shapes": [list(shape) for shape in self.shapes]}
        return {**asdict(self), **lists}

    @staticmethod
    def from_json(data: object, where: str) -> Fallback:
        """The record that :meth:`to_json` gave. Raises ArtifactError for another."""
        texts = ("subgraph", "target", "stage", "exception", "message")
        fields = object_of(data, where, (*texts, "nodes", "shapes"))
        subgraph, target, stage, exception, message = (text_of(fields[key], at(where, key)) for key in texts)
        nodes = texts_of(fields["nodes"], at(where, "nodes"))
        shapes = [
            tuple(number_of(d, place) for d in list_of(shape, place))
            for place, shape in numbered(fields, "shapes", where)
        ]
        return Fallback(subgraph, target, stage, exception, message, nodes, tuple(shapes))

    def __str__(self) -> str:
        return f"{describe(self.subgraph, self.target, self.nodes)} {self.why}"

    @property
    def why(self) -> str:
        """What happened, behind the name of what failed."""
        if self.stage == WARM:
            return self.message
        return f"failed at {self.stage}: {self.message}"


class StageError(Exception):
    """The error of a stage before the launch; *error* is what was raised."""

    def __init__(self, stage: str, error: Exception):
        super().__init__(vendors_text(error))
        self.stage, self.error = stage, error


def describe(symbol: str, target: str, nodes: tuple[str, ...], operators: tuple[str, ...] = ()) -> str:
    """A region for a message: its symbol, its first nodes (or operators, where nodes have no names), its target."""
    names = nodes or operators
    more = ", ..." if len(names) > NODES_NAMED else ""
    kind = "nodes" if nodes else "operators"
    named = f" ({kind} {', '.join(names[:NODES_NAMED])}{more})" if names else ""
    return f"region {symbol}{named} on {target}"


_report: Callable[[str | None], str | None] | None = None  # who wants to know what runs on a thread


@contextlib.contextmanager
def reporting_running(report: Callable[[str | None], str | None]) -> Iterator[None]:
    """Call *report* with what vendor's code each thread is at, in words; it returns what that thread was at before."""
    global _report
    _report = report
    try:
        yield
    finally:
        _report = None


def is_reporting_running() -> bool:
    """Whether somebody wants to know what runs."""
    return _report is not None


@contextlib.contextmanager
def running(text: str) -> Iterator[None]:
    """Say that this thread is at *text* meanwhile, where somebody wants to know."""
    report = _report
    if report is None:
        yield
        return
    before = report(text)
    try:
        yield
    finally:
        report(before)


@contextlib.contextmanager
def marked(stage: str) -> Iterator[None]:
    """Have errors inside say that they were raised at *stage*, for :func:`compile_stage`; they stay what they are."""
    try:
        yield
    except Exception as error:
        vars(error).setdefault("byoc_stage", stage)
        raise


def compile_stage(error: BaseException | None) -> str:
    """The stage at which *error*, or one that it was made of, says that it was raised; build where none says it."""
    while error is not None:
        if "byoc_stage" in vars(error):
            return str(vars(error)["byoc_stage"])
        error = error.__cause__
    return BUILD


def stage_of(error: Exception) -> tuple[str, Exception]:
    """The stage at which *error* was raised, and the error itself."""
    return (error.stage, error.error) if isinstance(error, StageError) else (LAUNCH, error)


def explained(symbol: str, region: Region, stage: str, error: Exception) -> Exception:
    """*error* in a sentence with region, nodes and stage: of its own kind where it is ours, else a DeviceError."""
    kind = type(error) if isinstance(error, ByocError) else DeviceError
    text = str(error) if isinstance(error, ByocError) else vendors_text(error)
    if isinstance(error, ValueError) and READ_ONLY in text:
        text += " (inputs and constants are only read: give a new array, or fill the output)"
    return kind(f"{region.describe(symbol)} failed at {stage}: {text}; {HOST_ADVICE}")
