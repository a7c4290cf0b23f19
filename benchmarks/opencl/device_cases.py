"""The models of ``opencl.py`` by name: what their ONNX files and PyTorch modules are made of, without a network.

A name is that of an architecture of ``export_zoo.py``, with ``_b32`` behind it for a batch of 32, or ``product4096``:
two matrices of so many rows and columns, both inputs. A file ``NAME.onnx`` in a folder that the user gives stands
before what would be made, and is all that is needed for a name that is no architecture's.
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import TensorProto, helper, save

if TYPE_CHECKING:
    from torch import nn

GPU_CASES = ("product4096", "resnet18", "resnet50", "resnet50_b32", "mobilenetv2", "bert", "bert_b8", "vit")
CPU_CASES = ("product1024", "resnet18", "mobilenetv2", "bert")
EXPORT_NEEDS = ("torch", "transformers", "onnxscript")
OPSET, IR_VERSION = 18, 10


class Absent(Exception):
    """A model cannot be had here; the text says what is missing."""


@dataclass(frozen=True)
class Case:
    """A model: *architecture* at a batch, or a product of *size*, or neither, which is a file that the user has."""

    name: str
    architecture: str | None = None
    batch: int = 1
    size: int = 0

    @property
    def has_module(self) -> bool:
        """Whether PyTorch has it."""
        return bool(self.architecture or self.size)


def case_of(name: str) -> Case:
    """What a name means.

    >>> case_of("resnet50_b32")
    Case(name='resnet50_b32', architecture='resnet50', batch=32, size=0)
    """
    if found := re.fullmatch(r"product(\d+)", name):
        return Case(name, size=int(found[1]))
    found = re.fullmatch(r"(.+?)(?:_b(\d+))?", name)
    assert found is not None
    architecture, batch = found[1], int(found[2] or 1)
    if architecture in _architectures():
        return Case(name, architecture, batch)
    return Case(name)


def _architectures() -> frozenset[str]:
    """Those of ``export_zoo.py``, which needs PyTorch; none without it."""
    if missing():
        return frozenset()
    from benchmarks.models.export_zoo import ARCHITECTURES

    return frozenset(ARCHITECTURES)


def missing() -> list[str]:
    """The packages that are not here and that making a model needs."""
    return [name for name in EXPORT_NEEDS if importlib.util.find_spec(name) is None]


def onnx_file(case: Case, given: Path | None, scratch: Path) -> Path:
    """The user's file, or one that is made now. Raises Absent."""
    if given is not None and (given / f"{case.name}.onnx").is_file():
        return given / f"{case.name}.onnx"
    path = scratch / f"{case.name}.onnx"
    if case.size:
        write_product(case.size, path)
    elif case.architecture is not None:
        from benchmarks.models.export_zoo import write

        model, example = _seeded(case)
        write(model, example, path)
    else:
        lacking = missing()
        packages = f" (making one needs {', '.join(lacking)}, not installed here)" if lacking else ""
        raise Absent(f"there is no architecture {case.name!r}{packages}: put {case.name}.onnx into the --models folder")
    return path


def model_files(names: Sequence[str]) -> Iterator[Path]:
    """The file of each of *names*, which is one, or what a case is called and is made now. Raises Absent."""
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            path = Path(name)
            yield path if path.is_file() else onnx_file(case_of(name), None, Path(scratch))


def write_product(size: int, path: Path) -> None:
    """``a @ b`` of two matrices f32[size, size]."""
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, size]) for name in ("a", "b", "out")]
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["out"])], "product", kinds[:2], kinds[2:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION), path)


def torch_module(case: Case) -> nn.Module:
    """The model in PyTorch with the weights of its ONNX file. Raises Absent for a file alone, and without PyTorch."""
    if importlib.util.find_spec("torch") is None:
        raise Absent("PyTorch is not installed here")
    if case.size:
        return _product()
    if case.architecture is None:
        raise Absent("it is an ONNX file alone, which PyTorch does not read")
    model, _ = _seeded(case)
    return model


def _product() -> nn.Module:
    import torch

    class Product(torch.nn.Module):
        """The product of two matrices."""

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            """``a @ b``."""
            return a @ b

    return Product()


def _seeded(case: Case) -> tuple[nn.Module, object]:
    import torch

    from benchmarks.models.export_zoo import seeded

    model, example = seeded(case.architecture)
    return model, torch.cat([example] * case.batch)
