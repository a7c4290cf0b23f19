"""``byoc.opt``: the simplified graph of a model as ONNX again, for other tools and for people to look at.

Constants are folded, batch norms are in the weights, dead and repeated nodes are gone; inputs and outputs keep their
names and their free sizes. Source: the stage ``simplify`` of the pipeline, and the writer of regions as ONNX.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import onnx
from onnx import ModelProto

from byoc.base.progress import silent
from byoc.driver.model import as_onnx, module_of
from byoc.driver.models.against_onnxruntime import TOLERANCE, Agreement, compared
from byoc.driver.models.kept_nodes import KeepingImporter, draws, with_named_nodes
from byoc.driver.models.options import OptRequest
from byoc.driver.pipeline import check_pass_names, optimize
from byoc.errors import CompileError, InternalError, UserError, in_one_line
from byoc.ir.module import IRModule
from byoc.options.entry import takes
from byoc.relay.expr import Function
from byoc.relay.frontend.onnx.load import LoadedModel, load_model
from byoc.relay.frontend.onnx_importer import imported_by
from byoc.relay.narrowing import as_function
from byoc.relay.onnx_writer import UnwritableError
from byoc.relay.onnx_writer.source import OPSET, KeptNode, SourceModel
from byoc.relay.onnx_writer.write import PortNames, written_model
from byoc.runtime.artefact.artifact import replace_file

LARGEST_FILE = 2**31 - 2**20  # of a protobuf message, less what the graph itself may take


@dataclass(frozen=True)
class OptimizedModel:
    """The simplified *model*; how many nodes it has and its source had; what ONNX Runtime says of it.

    *agreement* is None where nobody asked. *written* are the files, the model first.
    """

    model: ModelProto
    nodes: int
    source_nodes: int
    agreement: Agreement | None = None
    written: tuple[Path, ...] = ()

    def to_json(self) -> dict[str, object]:
        """What was done, as data."""
        return {
            "nodes": self.nodes,
            "source_nodes": self.source_nodes,
            "onnxruntime": None if self.agreement is None else self.agreement.to_json(),
            "written": [str(path) for path in self.written],
        }

    def __str__(self) -> str:
        lines = [f"{self.source_nodes} nodes became {self.nodes}"]
        if self.agreement is not None:
            lines.append(str(self.agreement))
        return "\n".join([*lines, *(f"wrote {path} ({path.stat().st_size:,} bytes)" for path in self.written)])


@takes(OptRequest, "byoc.opt")
def opt(asked: OptRequest) -> OptimizedModel:
    """The simplified graph of a model as ONNX, checked by ONNX and by ONNX Runtime, and written where *output* says.

    Returns:
        The model, with what became of it.

    Raises:
        UserError: a model that cannot be read, an output that is the model itself or cannot be written.
        CompileError: an operator of the simplified graph that ONNX cannot say, or not for free sizes.
    """
    check_pass_names(asked.pipeline)
    progress = asked.progress or silent
    progress("reading the model")
    source = load_model(as_onnx(asked.model))
    output = None if asked.output is None else Path(asked.output)
    if output is not None and output.exists() and source.folder is not None and output.samefile(source.name):
        raise UserError(f"--output {output}: this is the model itself; write to another file")
    progress("simplifying the graph")
    model = _simplified(asked, source)
    with tempfile.TemporaryDirectory() as at:
        progress("checking what was written")
        paths = _saved(model, Path(at) / (output.name if output is not None else "model.onnx"), asked.external_data)
        _check(paths[0])
        agreement = None
        if asked.check:
            progress("running both by ONNX Runtime")
            agreement = compared(source, paths[0])
            if agreement.difference > TOLERANCE:
                raise InternalError(
                    f"{source.name}: what was made of it computes something else by ONNX Runtime: outputs differ by "
                    f"{agreement.difference:.1e} of the largest, on random inputs; nothing was written"
                )
        written = () if output is None else _moved(paths, output)
    return OptimizedModel(model, len(model.graph.node), len(source.proto.graph.node), agreement, written)


def _simplified(asked: OptRequest, source: LoadedModel) -> ModelProto:
    """The simplified graph as ONNX. What ONNX has no words for stays as it was in *source*, node by node."""
    kept: frozenset[str] = frozenset()
    nodes: Mapping[str, KeptNode] = {}
    if draws(source):
        importer = KeepingImporter(source, kept)
        mod, nodes = imported_by(importer, asked.shapes), importer.nodes
    else:
        mod = module_of(source.proto if source.folder is None else asked.model, asked.shapes)
    first: UnwritableError | None = None
    left: dict[str, str] = {}
    while True:
        try:
            return _written(optimize(mod, asked.pipeline), source, nodes)
        except UnwritableError as error:
            before, source = source, with_named_nodes(source) if first is None else source
            first = first or error
            if error.nodes <= kept:
                reason = next((left[name] for name in sorted(error.nodes) if name in left), str(error))
                raise _refusal(source.name, first, reason) from error
            kept |= error.nodes if source is before else frozenset()  # in which other names are counted
        importer = KeepingImporter(source, kept)
        mod, nodes, left = imported_by(importer, asked.shapes), importer.nodes, importer.left


def _refusal(source: str, first: UnwritableError, reason: str) -> CompileError:
    kept = f", and its node does not stay as it is: {reason}" if reason != str(first) else ""
    return CompileError(
        f"{source}: the simplified graph has what is not written as ONNX: {first}{kept}; where "
        "that is for free sizes, fix them by shapes (--shape INPUT=1,3,224,224)"
    )


def _written(mod: IRModule, source: LoadedModel, nodes: Mapping[str, KeptNode]) -> ModelProto:
    main = as_function(mod["main"])
    functions = {var: f for var, f in mod.functions.items() if isinstance(f, Function) and f is not main}
    given = main.attrs.get("output_names")
    outputs = [str(n) for n in given] if isinstance(given, (list, tuple)) else []
    twice = next((name for k, name in enumerate(outputs) if name in outputs[:k]), None)
    if twice is not None:
        raise CompileError(
            f"{source.name}: two outputs are called {twice!r}, which ONNX does not allow; name each once"
        )
    names = PortNames([str(p.name_hint) for p in main.params], outputs)
    graph = source.proto.graph
    ports = {value.name: value for value in (*graph.input, *graph.output)}
    after = SourceModel(source.opsets.get("", OPSET), ports, nodes)
    return written_model(main, graph.name or "model", names, functions, after)


def _saved(model: ModelProto, path: Path, external: bool) -> list[Path]:
    """*model* as files at *path*: its own, and one for the weights where they do not fit or nobody wants them in it."""
    data = path.with_name(f"{path.name}.data")
    if external or sum(len(t.raw_data) for t in model.graph.initializer) > LARGEST_FILE:
        copy = ModelProto()
        copy.CopyFrom(model)  # saving takes the weights out of what is saved
        onnx.save_model(copy, str(path), save_as_external_data=True, location=data.name, size_threshold=1024)
        return [path, data] if data.exists() else [path]
    onnx.save_model(model, str(path))
    return [path]


def _check(path: Path) -> None:
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise InternalError(f"what was written is no ONNX: {in_one_line(error)}") from error


def _moved(paths: list[Path], output: Path) -> tuple[Path, ...]:
    """The files at the place of *output*, the model last, so that it never stands without its weights."""
    found = []
    for path in reversed(paths):
        with path.open("rb") as source:
            found.append(replace_file(output.with_name(path.name), functools.partial(_copy, source)))
    return tuple(reversed(found))


def _copy(source: BinaryIO, file: BinaryIO) -> None:
    source.seek(0)
    shutil.copyfileobj(source, file)
