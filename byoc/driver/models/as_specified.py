"""A model for ONNX Runtime in which nothing is left to it that it takes otherwise than ONNX says.

Leave to compute in fewer bits (``accuracy_level``) is taken back. Numbers of activations that a recurrent layer leaves
out are written: ONNX gives them "the same default values as of corresponding ONNX operators", which is 1 for alpha of
ThresholdedRelu-10 and of Affine-1, and ONNX Runtime (1.32) takes 0. ScaledTanh-1 had no defaults; byoc takes 1.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import ModelProto, NodeProto, helper

from byoc.relay.frontend.onnx.load import LoadedModel
from byoc.relay.onnx_writer.source import inner_nodes
from byoc.relay.op.attributes.recurrent import ACTIVATION_PARAMETERS

RECURRENT = ("LSTM", "GRU", "RNN")
ZERO_IN_ONNXRUNTIME = ("affine", "scaledtanh", "thresholdedrelu")
_DEFAULTS = {name.lower(): numbers for name, numbers in ACTIVATION_PARAMETERS.items()}


def as_specified(source: LoadedModel) -> tuple[ModelProto | None, str]:
    """*source* in this form, and a sentence about what ONNX Runtime takes otherwise in it, or "".

    None where *source* has this form already.
    """
    proto = onnx.load(source.name) if source.folder is not None else ModelProto()
    if source.folder is None:
        proto.CopyFrom(source.proto)
    outer = [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    nodes = [found for node in outer for found in (node, *inner_nodes(node))]
    exact = [_in_all_bits(node) for node in nodes]
    left_out = [what for node in nodes if node.op_type in RECURRENT for what in _complete(node)]
    if not left_out and not any(exact):
        return None, ""
    notes = [
        f"{node} leaves out {key} of {activation}, for which ONNX Runtime takes 0 and ONNX the operator's default: the "
        "default is written, and what was written was compared with the model in which it is written too"
        for node, key, activation in left_out
        if activation.lower() in ZERO_IN_ONNXRUNTIME
    ]
    return proto, notes[0] if notes else ""


def _in_all_bits(node: NodeProto) -> bool:
    """Take back leave to compute in fewer bits; whether *node* gave it."""
    kept = [attribute for attribute in node.attribute if attribute.name != "accuracy_level"]
    given = len(kept) < len(node.attribute)
    if given:
        del node.attribute[:]
        node.attribute.extend(kept)
    return given


def _complete(node: NodeProto) -> Iterator[tuple[str, str, str]]:
    """Write the numbers of activations that *node* leaves out; of each the node, the attribute and the activation."""
    given = {attribute.name: attribute for attribute in node.attribute}
    activations = [text.decode() for text in given["activations"].strings] if "activations" in given else []
    for which, key in enumerate(("activation_alpha", "activation_beta")):
        known = [(name, _DEFAULTS.get(name.lower(), (None, None))[which]) for name in activations]
        taken = [(name, default) for name, default in known if default is not None]
        stated = list(given[key].floats) if key in given else []
        if len(stated) >= len(taken):
            continue
        if key in given:
            node.attribute.remove(given[key])
        missing = taken[len(stated) :]
        node.attribute.append(helper.make_attribute(key, stated + [default for _, default in missing]))
        for name, default in missing:
            if default:
                yield f"node {node.name or node.op_type!r} ({node.op_type})", key, name
