"""A case: a function of the graph language, what it is run on, and the file in which both are kept.

A file is a ``.npz`` that holds the function as Relay's text (constants in its metadata), its inputs and the outputs
that the reference gives; nothing is unpickled.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from byoc.errors import InputError, UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.types import tensor_types
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Var
from byoc.relay.text import astext, parse
from byoc.relay.traverse import post_order
from byoc.runtime.core.ndarray import NDArray, dtype_name, numpy_dtype
from byoc.runtime.core.small_types import BITS
from byoc.runtime.files.whole_file import open_file

SCHEMA = 1
CONSTANT, LARGE_INTEGERS = "constant inputs", "large integers"  # kinds of cases
Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Case:
    """What a backend is asked to compute.

    *feeds* are the settings that it is run on, an array for each tensor of the parameters. *operator* is what it is a
    test of, *kind* the sort of test. A *whole* case goes through the planner; others are regions as they stand.
    """

    name: str
    operator: str
    kind: str
    function: Function
    feeds: tuple[Arrays, ...]
    whole: bool = False
    notes: Mapping[str, object] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How large the case is: nodes first, then elements; to find the smallest of several."""
        nodes = sum(isinstance(n, Call) for n in post_order(self.function.body))
        constants = [n.data.numpy() for n in post_order(self.function.body) if isinstance(n, Constant)]
        return nodes * 1_000_000 + sum(a.size for a in (*self.feeds[0], *constants)) if self.feeds else nodes

    @property
    def text(self) -> str:
        """The function as Relay's text, without the numbers of its constants."""
        return str(astext(self.function, show_meta_data=False))

    def inputs(self, k: int = 0) -> dict[str, np.ndarray]:
        """Setting *k* by the names of the tensors, as a library of this function has them."""
        names = [
            param.name_hint if len(types) == 1 and types[0] is param.checked_type else f"{param.name_hint}.{j}"
            for param in self.function.params
            for types in [tensor_types(param.checked_type)]
            for j in range(len(types))
        ]
        return dict(zip(names, self.feeds[k], strict=True))


def function_of(params: Sequence[Var], body: RelayExpr) -> Function:
    """A typed function. Raises TypeInferenceError."""
    function = Function(params, body)
    infer_expr(function)
    return function


def constant(array: np.ndarray) -> Constant:
    """*array* as a constant of the graph language."""
    return Constant(NDArray(np.array(array)))


def write_case(case: Case, path: Path, outputs: Sequence[np.ndarray]) -> Path:
    """Write *case* with its first setting, and the reference's *outputs*, as a ``.npz``; returns the path.

    Raises UserError where the file cannot be written.
    """
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    head = {"schema": SCHEMA, "name": case.name, "operator": case.operator, "kind": case.kind, "whole": case.whole}
    text = astext(IRModule.from_expr(case.function))
    arrays = {f"input_{k}": a for k, a in enumerate(case.feeds[0])}
    arrays |= {f"output_{k}": a for k, a in enumerate(outputs)}
    kinds = {name: dtype_name(a.dtype) for name, a in arrays.items()}
    header = json.dumps({**head, "dtypes": kinds, "notes": dict(case.notes)}, indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("case.json", header)
            archive.writestr("function.relay", text)
            for name, array in arrays.items():
                member = io.BytesIO()
                np.lib.format.write_array(member, _plain(array), allow_pickle=False)
                archive.writestr(f"{name}.npy", member.getvalue())
    except OSError as error:
        raise UserError(f"the case cannot be written to {path}: {error}") from error
    return path


def read_case(path: Path) -> tuple[Case, list[np.ndarray]]:
    """The case that :func:`write_case` wrote, and the reference's outputs. Raises InputError for another file."""
    try:
        with open_file(path) as source, zipfile.ZipFile(source) as archive:
            header = json.loads(archive.read("case.json"))
            if header.get("schema") != SCHEMA:
                raise InputError(f"{path}: a case of schema {header.get('schema')}, this byoc reads {SCHEMA}")
            mod = parse(archive.read("function.relay").decode())
            arrays = {
                name: _typed(_read(archive, f"{name}.npy"), str(dtype)) for name, dtype in header["dtypes"].items()
            }
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: no case that byoc wrote ({error})") from error
    function = mod["main"]
    if not isinstance(function, Function):
        raise InputError(f"{path}: its main is no function")
    given = tuple(arrays[f"input_{k}"] for k in range(len(arrays)) if f"input_{k}" in arrays)
    wanted = [arrays[f"output_{k}"] for k in range(len(arrays)) if f"output_{k}" in arrays]
    made = function_of(function.params, function.body)
    case = Case(
        str(header["name"]), str(header["operator"]), str(header["kind"]), made, (given,), bool(header["whole"])
    )
    return replace(case, notes=header.get("notes", {})), wanted


def _read(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    return np.asarray(np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False))


def _plain(array: np.ndarray) -> np.ndarray:
    if array.dtype.hasobject:
        return array.astype(str)
    bits = BITS.get(dtype_name(array.dtype))
    return array if bits is None else array.view(np.uint16 if bits == 16 else np.uint8)


def _typed(array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "string":
        return array.astype(object)
    return array.view(numpy_dtype(dtype)) if dtype in BITS else array
