"""Files of pass tests: a pass, and cases of a module before it and after it, all of it text.

A file begins with ``// pass: FoldConstant()`` and what the pass promises. A case is::

    // case: what the rule is
    // bind: w = ones(4, 3)        (a parameter of main becomes a constant; any number of them)
    // level: 4                    (of the context; 3 else)
    // numbers: none, why          (the interpreter cannot compare both; else it does)
    def @main(...) {...}
    // gives
    def @main(...) {...}

Types behind expressions are left out of what is compared, since the verifier holds them to the graph.
"""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass, field

import numpy as np

from byoc import relay
from byoc.ir.passes.transform import Pass, PassContext, Sequential
from byoc.ir.virtual_device import VirtualDevice
from byoc.relay import transform
from byoc.relay.bind import bind
from byoc.relay.dataflow_pattern import is_constant, is_op, wildcard
from byoc.relay.interpreter import evaluate
from byoc.relay.qnn import transform as qnn
from byoc.relay.qnn.passes import NarrowIntegerProducts, QuantizedProducts
from byoc.relay.transform.fuse.fuse_ops import FuseHostOps
from byoc.relay.transform.scales.fold_constant_scales import FoldConstantScales
from byoc.relay.transform.simplify.dead_code import EliminateHostDeadCode
from byoc.relay.transform.simplify.expr import SimplifyControlExpr, SimplifyHostExpr
from byoc.relay.transform.simplify.fold_constant import FoldHostConstant
from byoc.runtime.core.device import Device

HEADER = '#[version = "0.0.5"]\n'
GIVES = "// gives\n"
PASS, CASE = "// pass: ", "// case: "
TYPE = re.compile(r" /\* ty=.*? \*/")
OMITTED = "/* meta data omitted. you can use show_meta_data=True to include meta data */"
DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool")

NAMES = {
    **{name: getattr(transform, name) for name in transform.__all__},
    **{
        made.__name__: made
        for made in (
            EliminateHostDeadCode,
            FoldConstantScales,
            FoldHostConstant,
            FuseHostOps,
            NarrowIntegerProducts,
            QuantizedProducts,
            SimplifyControlExpr,
            SimplifyHostExpr,
            is_constant,
            is_op,
            wildcard,
        )
    },
    "qnn": qnn,
    "np": np,
    "ones": lambda *shape: np.ones(shape, "float32"),
    "ramp": lambda *shape: np.linspace(-1, 1, int(np.prod(shape)), dtype="float32").reshape(shape),
}


@dataclass
class Case:
    """One module and what the pass is to make of it."""

    name: str
    run: str
    source: str
    expected: str
    binds: list[str] = field(default_factory=list)
    level: int = 3
    no_numbers: str = ""

    def given(self) -> relay.IRModule:
        """The typed module of the source, with the constants that the case binds."""
        mod = relay.parse(HEADER + self.source, init_meta_table={"VirtualDevice": [VirtualDevice(Device("cpu"))]})
        main = mod["main"]
        for line in self.binds:
            name, _, value = line.partition("=")
            param = next(p for p in main.params if p.name_hint == name.strip())
            main = bind(main, {param: np.asarray(eval(value, dict(NAMES)))})
        mod = mod.shallow_copy()
        mod["main"] = main
        return transform.InferType()(mod)

    def step(self) -> Pass:
        """The pass of the file."""
        made = eval(self.run, dict(NAMES))
        return Sequential(made) if isinstance(made, list) else made

    def made(self, given: relay.IRModule) -> relay.IRModule:
        """The typed module after the pass, which is verified."""
        with PassContext(opt_level=self.level, config={"byoc.verify": True}):
            return transform.InferType()(Sequential([self.step()])(given))


def texts(folder: pathlib.Path) -> list[tuple[pathlib.Path, Case]]:
    """Every case below *folder* with its file."""
    return [(path, case) for path in sorted(folder.glob("*.relay")) for case in cases(path)]


def cases(path: pathlib.Path) -> list[Case]:
    """The cases of one file, in order. Raises ValueError for a file without its pass or without a case."""
    head, *parts = path.read_text().split(CASE)
    run = next((line.removeprefix(PASS) for line in head.splitlines() if line.startswith(PASS)), None)
    if run is None or not parts:
        raise ValueError(f"{path}: begins with `{PASS}FoldConstant()`, and each case with `{CASE}its name`")
    return [_case(run, part) for part in parts]


def _case(run: str, text: str) -> Case:
    given, _, expected = text.partition(GIVES)
    name, *lines = given.splitlines()
    case = Case(name, run, "", expected.strip())
    body = []
    for line in lines:
        key, _, value = line.removeprefix("// ").partition(": ")
        if not line.startswith("// "):
            body.append(line)
        elif key == "bind":
            case.binds.append(value)
        elif key == "level":
            case.level = int(value)
        elif key == "pass":
            case.run = value
        elif key == "numbers":
            assert value.startswith("none, "), f"{name}: say why numbers are not compared"
            case.no_numbers = value
    case.source = "\n".join(body).strip() + "\n"
    return case


def text_of(mod: relay.IRModule) -> str:
    """*mod* as a case has it: no types behind expressions, no values of constants."""
    return TYPE.sub("", str(mod)).replace(OMITTED, "").strip()


def rewritten(path: pathlib.Path, name: str, expected: str) -> None:
    """The file with *expected* as what the case *name* gives."""
    head, *parts = path.read_text().split(CASE)
    for at, part in enumerate(parts):
        if part.splitlines()[0] == name:
            parts[at] = f"{part.partition(GIVES)[0].rstrip()}\n{GIVES}{expected}\n\n"
    path.write_text(CASE.join([head, *parts]).rstrip() + "\n")


def numbers(mod: relay.IRModule, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The results of main on *inputs*, flat."""
    return _flat(evaluate(mod, inputs))


def _flat(value: object) -> list[np.ndarray]:
    return [a for v in value for a in _flat(v)] if isinstance(value, list) else [np.asarray(value)]


def random_inputs(mod: relay.IRModule) -> list[np.ndarray] | None:
    """Numbers for the parameters of main, a size of 3 where one is unknown; None where one is no tensor of numbers."""
    rng = np.random.default_rng(7)
    arrays = []
    for param in mod["main"].params:
        ty = param.checked_type
        if not isinstance(ty, relay.TensorType) or ty.dtype not in DTYPES:
            return None
        shape = tuple(d if isinstance(d, int) else 3 for d in ty.shape)
        low = 0 if ty.dtype in ("uint8", "bool") else -4
        numbers = rng.uniform(-2, 2, shape) if ty.dtype.startswith("float") else rng.integers(low, 4, shape)
        arrays.append(np.asarray(numbers).astype(ty.dtype))
    return arrays
