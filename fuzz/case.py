"""A case: a model and what goes into it, as a value that is written to a JSON file and read back exactly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import ml_dtypes  # noqa: F401  # numpy learns bfloat16 by it
import numpy as np
import onnx
import onnx.parser
import onnx.printer
from onnx import ModelProto

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model and its inputs, once for each setting of its free sizes.

    ``wanted[k]`` are the outputs for ``feeds[k]`` as the oracle computes them; empty until it was asked.
    ``configurations`` are the names of those that it is to be run under; none stands for all.
    """

    name: str
    model: ModelProto
    feeds: Sequence[Feeds]
    wanted: Sequence[Sequence[np.ndarray]] = ()
    configurations: Sequence[str] = ()
    note: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    def named(self, name: str) -> Case:
        """The same case under another name."""
        return replace(self, name=name)

    def operators(self) -> list[tuple[str, str]]:
        """Each operator of the model, subgraphs included, with the element type of its first known input."""
        known = {i.name: i.type.tensor_type.elem_type for i in self.model.graph.input}
        known |= {w.name: w.data_type for w in self.model.graph.initializer}
        known |= {v.name: v.type.tensor_type.elem_type for v in self.model.graph.value_info}
        found = []
        for node in self.model.graph.node:
            types = [known[n] for n in node.input if known.get(n)]
            name = onnx.TensorProto.DataType.Name(types[0]).lower() if types else "any"
            found.append((node.op_type, name))
        return found

    def write(self, path: Path) -> Path:
        """Write the case to *path* and return it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        found = self.to_json()
        lines = [json.dumps(line) for line in found["model"]] if isinstance(found["model"], list) else []
        model = "[\n  " + ",\n  ".join(lines) + "\n ]" if lines else json.dumps(found["model"])
        feeds = ",\n  ".join(json.dumps(one) for one in found["feeds"])  # type: ignore[attr-defined]
        head = ",\n ".join(f'"{key}": {json.dumps(found[key])}' for key in ("name", "note", "configurations"))
        text = f'{{\n {head},\n "model": {model},\n "feeds": [\n  {feeds}\n ]\n}}\n'
        path.write_text(text, encoding="utf-8")
        return path

    def to_json(self) -> dict[str, object]:
        """Everything but what is wanted, which the oracle computes anew."""
        return {
            "name": self.name,
            "note": self.note,
            "configurations": list(self.configurations),
            "model": model_to_text(self.model),
            "feeds": [{name: array_to_json(value) for name, value in feeds.items()} for feeds in self.feeds],
        }

    @staticmethod
    def read(path: Path) -> Case:
        """The case that :meth:`write` wrote."""
        found = json.loads(path.read_text(encoding="utf-8"))
        feeds = [{name: array_from_json(v) for name, v in one.items()} for one in found["feeds"]]
        model = model_from_text(found["model"])
        return Case(found["name"], model, feeds, (), tuple(found["configurations"]), found["note"])


def model_to_text(model: ModelProto) -> list[str] | str:
    """ONNX's own text, by lines, where reading it back gives the same model; else the bytes in hexadecimal."""
    try:
        text = onnx.printer.to_text(model)
        again = parsed(text)
    except (onnx.parser.ParseError, UnicodeDecodeError, RuntimeError):
        return model.SerializeToString(deterministic=True).hex()
    if again != model:
        return model.SerializeToString(deterministic=True).hex()
    return text.splitlines()


def model_from_text(text: list[str] | str) -> ModelProto:
    """The model that :func:`model_to_text` wrote."""
    if isinstance(text, str):
        return onnx.load_model_from_string(bytes.fromhex(text))
    return parsed("\n".join(text))


def parsed(text: str) -> ModelProto:
    """The model of ONNX's text, without the empty domains that reading it writes down."""
    model = onnx.parser.parse_model(text)
    for node in model.graph.node:
        if not node.domain:
            node.ClearField("domain")
    return model


def array_to_json(value: np.ndarray) -> dict[str, object]:
    """An array: its numbers, which JSON writes so that they are read back to the bit (NaN as such)."""
    wide = value.astype("float64") if str(value.dtype) in ("bfloat16", "float16", "float32") else value
    return {"dtype": str(value.dtype), "shape": list(value.shape), "data": wide.ravel().tolist()}


def array_from_json(found: Mapping[str, object]) -> np.ndarray:
    """The array that :func:`array_to_json` wrote."""
    flat = np.array(found["data"], dtype=np.float64 if "float" in str(found["dtype"]) else str(found["dtype"]))
    return flat.astype(str(found["dtype"])).reshape(found["shape"])  # type: ignore[arg-type]
