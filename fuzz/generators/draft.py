"""Random ONNX models: each node is tried by ONNX Runtime when it is drawn, and its value is what is expected of it.

A model has a free batch size or none; a draft keeps the value of every tensor at each batch size, and once more with
rounding errors put in before each arithmetic node: a node whose result such errors change is not well conditioned, and
is not taken. So what is compared differs by rounding alone, and integers and booleans must agree exactly.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from fuzz.case import Feeds
from fuzz.generators.schema import type_problem
from fuzz.judge.oracle import IR_VERSION, Noise, NotApplicable, is_float, run_node

NOISE = 1e-6
LARGEST = 1e4
MOST_ELEMENTS = 60_000
EXACT = frozenset(  # what computes no new number; the scales and sizes of a resize must stay as they are
    "Transpose Reshape Squeeze Unsqueeze Flatten Concat Split Slice Pad Gather GatherElements Where Expand Tile Cast "
    "Relu MaxPool Max Min Identity Neg Abs ArgMax ArgMin TopK Equal Greater Less GreaterOrEqual LessOrEqual Not And "
    "Or Xor ReduceMax ReduceMin DepthToSpace SpaceToDepth Sign Floor Ceil Round Clip Trilu Shape Size OneHot GatherND "
    "Hardmax Resize".split()
)
FLOATS, INTEGERS = ("float32", "float64"), ("int32", "int64")
Proposal = Callable[["Draft"], None]


def proposals(into: list[Proposal]) -> Callable[[int], Callable[[Proposal], Proposal]]:
    """A decorator that adds a function which draws a node to *into*, so many times as it is given."""

    def times(number: int) -> Callable[[Proposal], Proposal]:
        def register(function: Proposal) -> Proposal:
            into.extend([function] * number)
            return function

        return register

    return times


@dataclass(frozen=True)
class Freedom:
    """What a draft may hold beside the ordinary: element types, ranks, empty dimensions, NaN and infinities."""

    floats: Sequence[str] = FLOATS
    integers: Sequence[str] = INTEGERS
    most_rank: int = 6
    empty: bool = False
    special: float = 0.0  # how often an array has a NaN, an infinity, a denormal or a largest number
    nodes: tuple[int, int] = (3, 26)
    opsets: Sequence[int] = (13, 17, 18, 20)


ORDINARY = Freedom()
SPECIAL_FLOATS = (np.nan, np.inf, -np.inf, -0.0, 0.0, "tiny", "max")


@dataclass(frozen=True)
class RandomModel:
    """A model, and for each batch size what goes in and what must come out; *draft* has all that is between."""

    proto: ModelProto
    feeds: Sequence[Feeds]
    wanted: Sequence[Sequence[np.ndarray]]
    draft: Draft


@dataclass
class Draft:
    """A model in the making. ``settings[k][name]`` is the value of a tensor in setting k; the second half is noisy."""

    rng: random.Random
    opset: int
    sizes: Sequence[int]
    nodes: list[NodeProto] = field(default_factory=list)
    inputs: dict[str, list[int | str]] = field(default_factory=dict)
    weights: Feeds = field(default_factory=dict)
    settings: list[Feeds] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    freedom: Freedom = ORDINARY
    next_nodes: int | None = None

    def __post_init__(self) -> None:
        self.settings = [{} for _ in range(2 * len(self.sizes))]
        self.numbers = np.random.default_rng(self.rng.randrange(1 << 30))
        self.noise = Noise(NOISE, EXACT)
        self.noise.numbers = self.numbers  # the stream of numbers that known seeds stand for

    @staticmethod
    def limited(draft: Draft, nodes: int) -> Draft:
        """*draft* itself, which is next given so many nodes, and afterwards as many as its freedom says."""
        draft.next_nodes = nodes
        return draft

    @property
    def is_static(self) -> bool:
        """True when no size is free."""
        return len(self.sizes) == 1

    def random_array(self, shape: Sequence[int], dtype: str) -> np.ndarray:
        """Numbers around zero, or booleans."""
        if dtype == "bool":
            return np.asarray(self.numbers.random(shape) < 0.5)
        if dtype.startswith("uint"):
            return self.with_special(np.asarray(self.numbers.integers(0, 19, shape), dtype))
        if dtype.startswith("int"):
            return self.with_special(np.asarray(self.numbers.integers(-9, 10, shape), dtype))
        return self.with_special(np.asarray(self.numbers.uniform(-1.5, 1.5, shape)).astype(dtype))

    def with_special(self, value: np.ndarray) -> np.ndarray:
        """*value* with a few NaN, infinities, denormals or extremes, where the draft has that freedom."""
        if not self.freedom.special or not value.size or self.rng.random() >= self.freedom.special:
            return value
        flat = value.ravel()
        for _ in range(self.rng.choice((1, 1, 2, 5))):
            flat[self.rng.randrange(flat.size)] = special_number(value.dtype, self.rng)
        return flat.reshape(value.shape)

    def add_input(self, shape: Sequence[int], dtype: str, free: bool) -> None:
        """An input of the model; when *free*, its first size is the batch."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = ["N", *shape[1:]] if free else list(shape)
        for k, size in enumerate(self.sizes):
            value = self.random_array([size, *shape[1:]] if free else shape, dtype)
            self.settings[k][name] = self.settings[k + len(self.sizes)][name] = value
        self.made.append(name)

    def weight(self, value: np.ndarray) -> str:
        """A constant of the model; the same one again when it was there before."""
        for name, known in self.weights.items():
            if known.dtype == value.dtype and known.shape == value.shape and (known == value).all():
                return name
        name = f"w{len(self.weights)}"
        self.weights[name] = value
        for setting in self.settings:
            setting[name] = value
        return name

    def floats(self, *shape: int, dtype: str = "float32") -> str:
        """A constant of numbers; one that the model has already in one case of four."""
        known = [n for n, v in self.weights.items() if v.shape == shape and v.dtype == dtype]
        if known and self.rng.random() < 0.25:
            return self.rng.choice(known)
        return self.weight(self.random_array(shape, dtype))

    def ints(self, values: Sequence[int]) -> str:
        """A constant vector of int64."""
        return self.weight(np.array(values, "int64"))

    def value(self, name: str) -> np.ndarray:
        """The tensor *name* in the first setting."""
        return self.settings[0][name]

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of *name* in the first setting."""
        return self.value(name).shape

    def dtype(self, name: str) -> str:
        """The name of the element type."""
        return str(self.value(name).dtype)

    def free_axes(self, name: str) -> set[int]:
        """The axes whose size depends on the batch."""
        shapes = [s[name].shape for s in self.settings]
        return {a for a in range(len(shapes[0])) if len({s[a] for s in shapes}) > 1}

    def pick(
        self,
        dtypes: Sequence[str] = FLOATS,
        rank: Sequence[int] = range(9),
        where: Callable[[str], bool] = lambda name: True,
    ) -> str:
        """One of the values so far, later ones rather. Raises NotApplicable where none fits."""
        dtypes = self.widened(dtypes)
        fit = [n for n in self.made if self.dtype(n) in dtypes and len(self.shape(n)) in rank and where(n)]
        if not fit:
            raise NotApplicable
        return self.rng.choice(fit[-self.rng.choice((1, 2, 4, 50)) :])

    def widened(self, dtypes: Sequence[str]) -> Sequence[str]:
        """*dtypes* with all floats where both ordinary ones are among them, and all integers likewise."""
        more = [
            t
            for ordinary, wide in ((FLOATS, self.freedom.floats), (INTEGERS, self.freedom.integers))
            if set(ordinary) <= set(dtypes)
            for t in wide
        ]
        return (*dtypes, *more)

    def axis(self, name: str) -> int:
        """An axis, counted from either end. Raises NotApplicable for a scalar."""
        rank = len(self.shape(name))
        if not rank:
            raise NotApplicable
        return self.rng.randrange(-rank, rank)

    def fixed_axis(self, name: str) -> int:
        """An axis whose size is a number. Raises NotApplicable where there is none."""
        fixed = [a for a in range(len(self.shape(name))) if a not in self.free_axes(name)]
        if not fixed:
            raise NotApplicable
        return self.rng.choice(fixed)

    def add(self, op: str, inputs: Sequence[str], outputs: int = 1, **attrs: object) -> list[str]:
        """Try the node in every setting and keep it. Raises NotApplicable when it cannot run, or not reliably."""
        names = [f"t{len(self.nodes)}_{k}" if outputs > 1 else f"t{len(self.nodes)}" for k in range(outputs)]
        attrs = {k: v for k, v in attrs.items() if v is not None and v != []}
        node = helper.make_node(op, inputs, names, f"{op}_{len(self.nodes)}", **attrs)
        self.add_node(node)
        return names

    def add_node(self, node: NodeProto) -> None:
        """Try *node* and keep it. Raises NotApplicable as :meth:`add`."""
        names = [n for n in node.output if n]
        self.check_types(node)
        noise = Noise(NOISE, EXACT, self.rng.randrange(1 << 30)) if self.freedom is not ORDINARY else self.noise
        half = len(self.sizes)
        results = [run_node(node, self.opset, setting) for setting in self.settings[:half]]
        results += [run_node(node, self.opset, noise(node, setting)) for setting in self.settings[half:]]
        for exact, noisy in zip(results[:half], results[half:], strict=True):
            if not all(self.well_conditioned(*pair) for pair in zip(exact, noisy, strict=True)):
                raise NotApplicable(f"{node.op_type} is ill conditioned")
        freedom = self.freedom
        for value in (v for found in results for v in found):
            if value.size > MOST_ELEMENTS or value.ndim > freedom.most_rank or (0 in value.shape and not freedom.empty):
                raise NotApplicable(f"{node.op_type} gives shape {value.shape}")
        for k, found in enumerate(results):
            for name, value in zip(names, found, strict=True):
                self.settings[k][name] = value
        self.nodes.append(node)
        self.made.extend(names)

    def check_types(self, node: NodeProto) -> None:
        """Raises NotApplicable where ONNX does not allow the node the element types of what it reads."""
        if self.freedom is ORDINARY:
            return  # ONNX Runtime refuses such nodes
        problem = type_problem(node, self.opset, {n: self.dtype(n) for n in node.input if n})
        if problem:
            raise NotApplicable(problem)

    def well_conditioned(self, exact: np.ndarray, noisy: np.ndarray) -> bool:
        """True when a result is hardly moved by rounding errors before it."""
        return (well_conditioned if self.freedom is ORDINARY else hardly_moved)(exact, noisy)


def hardly_moved(exact: np.ndarray, noisy: np.ndarray) -> bool:
    """As :func:`well_conditioned`, but NaN and infinities may stand where they stand, and numbers be large."""
    if exact.shape != noisy.shape:
        return False
    if not is_float(exact.dtype):
        return bool((exact == noisy).all())
    a, b = exact.astype("float64"), noisy.astype("float64")
    finite = np.isfinite(a)
    if not ((a == b) | (np.isnan(a) & np.isnan(b)) | finite & np.isfinite(b)).all():
        return False
    span = max(float(np.abs(a[finite]).max(initial=0)), 1e-30)
    limit = {"float16": 2e-2, "bfloat16": 0.15}.get(str(exact.dtype), 2e-5)
    return float(np.abs(a[finite] - b[finite]).max(initial=0)) < limit * span


def special_number(dtype: np.dtype, rng: random.Random) -> object:
    """A number that arithmetic treats in a way of its own, as *dtype* has it."""
    if not is_float(dtype):
        limits = np.iinfo(dtype)
        return rng.choice((limits.min, limits.max, limits.max - 1, 0, 1))
    kind = rng.choice(SPECIAL_FLOATS)
    limits = ml_dtypes.finfo(dtype)
    return {"tiny": limits.smallest_subnormal, "max": limits.max}.get(kind, kind)


def well_conditioned(exact: np.ndarray, noisy: np.ndarray) -> bool:
    """True when a result is finite, not large, and hardly moved by rounding errors before it."""
    if exact.shape != noisy.shape:
        return False
    if exact.dtype.kind != "f":
        return bool((exact == noisy).all())
    if not np.isfinite(exact).all() or not np.isfinite(noisy).all() or np.abs(exact).max(initial=0) > LARGEST:
        return False
    span = max(float(np.ptp(exact)), 1e-3) if exact.size else 1
    return float(np.abs(exact - noisy).max(initial=0)) < 2e-5 * span


def random_model(seed: int, proposals: Sequence[Proposal]) -> RandomModel:
    """The model of *seed*: 3 to 25 nodes, one to three inputs, some outputs that are used inside as well."""
    rng = random.Random(seed)
    free = rng.random() < 0.45
    draft = Draft(rng, rng.choice((13, 17, 18, 20)), rng.sample([1, 2, 3, 5], 2) if free else [1])
    for k in range(rng.randrange(1, 4)):
        rank = rng.choice((4, 4, 3, 2, 5, 1, 0) if k == 0 else (4, 3, 2, 1, 0))
        dtype = rng.choice(("float32",) * (9 if k == 0 else 5) + ("float64", "int64", "int32", "bool"))
        draft.add_input(random_shape(rng, rank), dtype, free and rank > 0 and (k == 0 or rng.random() < 0.7))
    return finish(grow(draft, proposals))


def grow(draft: Draft, proposals: Sequence[Proposal]) -> Draft:
    """Add as many nodes as the draft's freedom says, where so many can be found."""
    most = draft.next_nodes or draft.rng.randrange(*draft.freedom.nodes)
    draft.next_nodes = None
    for _ in range(200):
        try:
            draft.rng.choice(proposals)(draft)
        except (NotApplicable, ValueError, IndexError, ArithmeticError):
            continue
        if len(draft.nodes) >= most:
            break
    return draft


def random_shape(rng: random.Random, rank: int) -> list[int]:
    """Sizes around what a vector and a tile hold; four of them are those of images."""
    if rank == 4:
        images = [rng.choice((1, 2, 3, 5, 7, 8, 9, 11, 16, 33)) for _ in "hw"]
        return [rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 3, 4, 8, 12, 16, 17, 40)), *images]
    if rank == 5:
        return [rng.randrange(1, 6) for _ in range(rank)]
    return [rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 33, 40)) for _ in range(rank)]


def finish(draft: Draft) -> RandomModel:
    """What nothing uses are outputs (few are left unused), and some that are used, or are inputs."""
    rng = draft.rng
    used = {n for node in draft.nodes for n in node.input}
    ends = [n for n in draft.made if n not in used and n not in draft.inputs]
    outputs = [n for n in ends if rng.random() < 0.9] or ends[:1] or draft.made[:1]
    outputs += [n for n in draft.made if n not in outputs and rng.random() < (0.03 if n in draft.inputs else 0.1)]
    rng.shuffle(outputs)
    return RandomModel(
        to_proto(draft.nodes, draft.inputs, draft.weights, outputs, draft.settings[0], draft.opset),
        [{n: s[n] for n in draft.inputs} for s in draft.settings[: len(draft.sizes)]],
        [[s[n] for n in outputs] for s in draft.settings[: len(draft.sizes)]],
        draft,
    )


def to_proto(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    weights: Feeds,
    outputs: Sequence[str],
    values: Feeds,
    opset: int,
) -> ModelProto:
    """The model; the shapes of its outputs are left open."""

    def info(name: str, shape: Sequence[int | str] | None) -> ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values[name].dtype), shape)

    graph = helper.make_graph(
        list(nodes),
        "random",
        [info(n, shape) for n, shape in inputs.items()],
        [info(n, None) for n in outputs],
        [numpy_helper.from_array(v, n) for n, v in weights.items()],
    )
    domains = {node.domain: 1 for node in nodes if node.domain}
    imports = [helper.make_opsetid(name, version) for name, version in {"": opset, **domains}.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
