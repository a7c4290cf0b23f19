"""What an output that differs is held to next, before it counts as wrong. Each rule is one of its own in the page.

- A model that chooses (``TopK``) among scores that are equal but for their last bits chooses otherwise where they are
  rounded otherwise, and everything behind it is another. What it chose is then an input: with ONNX Runtime's choice
  given to both, the scores and all outputs must agree to the same 1e-4.
- A model that draws random numbers (``RandomNormalLike``) has other ones in each program. They are an input likewise.
- What is left is held to the fuzzer's judge (``fuzz/judge``): it is ill conditioned where errors of the size of one
  rounding of float32, put into what each node computes, move ONNX Runtime's own numbers as far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from byoc.testing.core.difference import is_float
from fuzz.judge.compare import WRONG, Judge

Feed = dict[str, np.ndarray]
CHOOSES = frozenset(["TopK"])
DRAWS = frozenset(
    ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)


def given(path: Path, operators: frozenset[str], to: Path, feeds: Sequence[Feed]) -> list[Feed] | None:
    """The model at *path* whose nodes of *operators* are inputs instead, written *to* a file; the feeds for it.

    What such a node read is an output more, so that it is compared. None where the model has no such node.
    """
    model = onnx.load(path)
    nodes = [n for n in model.graph.node if n.op_type in operators]
    if not nodes:
        return None
    made = [name for node in nodes for name in node.output if name]
    values = [_values(path, made, feed) for feed in feeds]
    read = [node.input[0] for node in nodes if node.input and _is_made(model, node.input[0])]
    kept = [n for n in model.graph.node if n.op_type not in operators]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    known = {v.name: v for v in model.graph.value_info}
    for name in made:
        model.graph.input.append(known.get(name) or _declared(name, [v[name] for v in values]))
    wanted = {o.name for o in model.graph.output}
    model.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(n) for n in dict.fromkeys(read) if n not in wanted
    )
    onnx.save(model, to)
    return [{**feed, **found} for feed, found in zip(feeds, values, strict=True)]


def _is_made(model: onnx.ModelProto, name: str) -> bool:
    return any(name in node.output for node in model.graph.node)


def _values(path: Path, names: Sequence[str], feed: Feed) -> Feed:
    """What ONNX Runtime computes for the values *names* of the model at *path*."""
    model = onnx.load(path)
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(n) for n in names)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(list(names), feed), strict=True))


def _declared(name: str, values: Sequence[np.ndarray]) -> onnx.ValueInfoProto:
    """An input of the type of *values*, free where their sizes differ."""
    sizes = [set(each) for each in zip(*(v.shape for v in values), strict=True)]
    dims = [each.pop() if len(each) == 1 else f"{name}_{axis}" for axis, each in enumerate(sizes)]
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(values[0].dtype), dims)


def is_ill_conditioned(path: Path, feed: Feed, got: Sequence[np.ndarray], want: list[np.ndarray]) -> bool:
    """Whether rounding errors move each output of floats of ONNX Runtime's as far as *got* is off."""
    judge = Judge(onnx.load(path), feed, want)
    pairs: Mapping[int, np.ndarray] = {i: np.asarray(a) for i, a in enumerate(got)}
    return all(judge.judge(i, a).verdict != WRONG for i, a in pairs.items() if is_float(want[i].dtype))
