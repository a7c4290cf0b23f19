"""The two faces of the importer: :func:`import_onnx`, and Relay's :func:`from_onnx`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.ir.collector import paused_collector
from byoc.ir.module import IRModule
from byoc.relay.frontend.onnx.graph import GraphImporter
from byoc.relay.frontend.onnx.inputs import Shapes
from byoc.relay.frontend.onnx.load import LoadedModel, ModelSource, load_model
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.narrowing import as_var
from byoc.relay.transform.base.infer_type import InferType
from byoc.runtime.core.ndarray import NDArray


def import_onnx(
    model: ModelSource, *, shapes: Shapes | None = None, freeze_params: bool = True, overridable: Sequence[str] = ()
) -> IRModule:
    """An ONNX model (a path, bytes or a ModelProto) as a typed module.

    The parameters of ``main`` are the graph's inputs in their order, under their exact names; initialisers that the
    model lists as inputs are constants, but for those that *overridable* names: they are parameters behind the others,
    and :func:`input_defaults` gives their values. A free dimension is a named Any, unless *shapes* fixes it: input name
    to a list of sizes, or names of sizes. ``main`` has the attributes ``input_names`` and ``output_names``, and
    ``fixed_inputs`` where inputs became constants; several outputs are a Tuple. Without *freeze_params* the
    floating-point weights are further parameters, after the inputs.
    Raises ImportModelError, in one sentence that names the file, and the node or input.
    """
    return _imported(load_model(model, leave=True), shapes, freeze_params, overridable)[0]


def input_defaults(model: ModelSource, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The values that the initialisers *names* have in *model*, as arrays of their own.

    Raises ImportModelError for a model that cannot be read, KeyError for a name that no initialiser has.
    """
    loaded = load_model(model, leave=True)
    tensors = {tensor.name: tensor for tensor in loaded.proto.graph.initializer}
    return {name: np.array(loaded.array(tensors[name]), order="C") for name in names}


def from_onnx(
    model: ModelSource,
    shape: Shapes | None = None,
    dtype: str = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
) -> tuple[IRModule, dict[str, NDArray]]:
    """A module and its parameters, which are empty when they are frozen into it. Source: ``relay.frontend.from_onnx``.

    *shape* gives the shapes of inputs by name, *opset* replaces the version that the model states. Elements have the
    types that the model gives them; *dtype* is taken for the sake of Relay's signature. Raises ImportModelError.
    """
    return _imported(load_model(model, opset, leave=True), shape, freeze_params)


def import_loaded(model: LoadedModel, shapes: Shapes | None = None) -> IRModule:
    """As :func:`import_onnx`, of a model that is read already."""
    return _imported(model, shapes, True)[0]


def _imported(
    model: LoadedModel, shapes: Shapes | None, freeze: bool, overridable: Sequence[str] = ()
) -> tuple[IRModule, dict[str, NDArray]]:
    importer = GraphImporter(model, freeze, overridable)
    mod = imported_by(importer, shapes)
    return mod, {as_var(w).name_hint: NDArray(array) for w, array in importer.weights.items()}


@paused_collector()
def imported_by(importer: GraphImporter, shapes: Shapes | None = None) -> IRModule:
    """The typed module that *importer* makes of its model."""
    whole = IRModule({"main": importer.main(shapes)})
    for var, function in importer.inner.functions.items():
        whole[var] = function
    return InferType()(whole)


__all__ = ["converter", "from_onnx", "import_loaded", "import_onnx", "imported_by", "input_defaults"]
