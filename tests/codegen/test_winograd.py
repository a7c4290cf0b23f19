"""Convolutions by Winograd's method: against float64, where images and channels end raggedly, by teams of any size."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.c.backend import compile_functions
from byoc.codegen.c.emit import emit_programs
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.c.winograd.choice import candidates
from byoc.codegen.c.winograd.convolution import Convolution, convolution
from byoc.codegen.c.winograd.options import DIRECT, ERRORS, WinogradOptions
from byoc.codegen.c.winograd.rewrite import with_plans
from byoc.codegen.c.winograd.sizes import META, OUTPUT, WinogradPlan
from byoc.codegen.c.winograd.transforms import OUTPUTS, linear_forms, transforms
from byoc.codegen.kernel.choice import Fixed, SpaceCollector
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.region import constant_arrays, fuse_body
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.tune.kernel_program import kernel_program
from byoc.errors import CompileError
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, RelayExpr
from byoc.relay.transform import FoldConstant, InferType
from byoc.runtime.dso.module import DsoModule
from byoc.te import compute, placeholder
from byoc.te.evaluate import evaluate

FLAGS = ("-Wall", "-Wextra", "-Werror", "-Wno-psabi", *os.environ.get("BYOC_TEST_CFLAGS", "").split())
SAME = (1, 1, 1, 1)
AVX512, AVX, SSE = Machine(64, 24, 32), Machine(32, 12, 16), Machine(16, 8, 16)
Pads = tuple[int, int, int, int]


class Case:
    """A convolution of *batch* images [*height*, *width*, *channels*] to *filters*, with bias and what *after* adds.

    *free*: the program's batch is a size that is known when it runs, and *batch* the one that is run.
    """

    def __init__(
        self,
        batch: int,
        height: int,
        width: int,
        channels: int,
        filters: int,
        pads: Pads = SAME,
        after: Callable[[RelayExpr], RelayExpr] = relay.nn.relu,
        kernel_layout: str = "HWIO",
        free: bool = False,
    ):
        rng = np.random.default_rng([batch, height, width, channels, filters])
        self.pads = pads
        self.image = rng.standard_normal((batch, height, width, channels)).astype("float32")
        self.weights = (rng.standard_normal((3, 3, channels, filters)) / np.sqrt(9 * channels)).astype("float32")
        self.bias = rng.standard_normal(filters).astype("float32")
        weights = np.asarray(self.weights.transpose(["HWIO".index(k) for k in kernel_layout]), order="C")
        x = relay.var("x", shape=(relay.Any("N") if free else batch, height, width, channels))
        y = relay.nn.conv2d(
            x,
            relay.const(weights),
            channels=filters,
            kernel_size=(3, 3),
            padding=pads,
            data_layout="NHWC",
            kernel_layout=kernel_layout,
        )
        self.function = _function(Function([x], after(relay.add(y, relay.const(self.bias)))))

    @property
    def program(self) -> Program:
        return lower_function(self.function, "conv")

    def expected(self) -> np.ndarray:
        """The sum before what comes after it, in float64."""
        top, left, bottom, right = self.pads
        image = np.pad(self.image.astype("float64"), ((0, 0), (top, bottom), (left, right), (0, 0)))
        height, width = image.shape[1] - 2, image.shape[2] - 2
        taps = product(range(3), range(3))
        total = sum(image[:, i : i + height, j : j + width] @ self.weights[i, j].astype("float64") for i, j in taps)
        return total + self.bias


def _function(function: Function) -> Function:
    mod = FoldConstant()(InferType()(IRModule.from_expr(function)))
    return fuse_body(mod["main"].with_attr("global_symbol", "conv"))  # type: ignore[attr-defined]


def _found(program: Program) -> list[Convolution]:
    found: list[Convolution] = []

    def see(conv: Convolution) -> WinogradPlan | None:
        found.append(conv)
        return None

    assert with_plans(program, see) is program
    return found


def _with_plan(
    case: Case, pick: Callable[[list[WinogradPlan]], WinogradPlan], outputs: int, machine: Machine = AVX512
) -> Program:
    plans: list[WinogradPlan] = []

    def pick_one(conv: Convolution) -> WinogradPlan:
        plans.extend(candidates(conv, machine, outputs))
        return pick(plans)

    return prepare(with_plans(case.program, pick_one), machine, allowed=WinogradOptions.of({"winograd": "off"}))


def _module(program: Program, machine: Machine = AVX512) -> DsoModule:
    compiler = find_compiler()
    source = emit_programs([program], machine)
    return DsoModule(compiler.build(source, FLAGS), [program.signature], source, constant_arrays([program]))


def _result(case: Case, program: Program, machine: Machine = AVX512) -> np.ndarray:
    result = np.full(case.expected().shape, np.nan, "float32")
    _module(program, machine)["conv"](case.image, result)
    return result


def _check(case: Case, result: np.ndarray, outputs: int) -> None:
    expected = np.maximum(case.expected(), 0)
    assert np.isfinite(result).all()
    assert np.abs(result - expected).max() <= ERRORS[outputs] * np.abs(case.expected()).max()


def _smallest(plans: list[WinogradPlan]) -> WinogradPlan:
    return min(plans, key=lambda p: (p.local_bytes, p.rows))


def _largest(plans: list[WinogradPlan]) -> WinogradPlan:
    return max(plans, key=lambda p: (p.rows * p.vectors, p.blocks))


SIZES = [  # batch, height, width, channels, filters, pads
    (1, 3, 3, 16, 24, SAME),
    (1, 3, 3, 5, 3, (0, 0, 0, 0)),
    (2, 5, 7, 3, 5, SAME),
    (1, 8, 8, 24, 16, (0, 0, 0, 0)),
    (2, 13, 9, 16, 130, (2, 0, 1, 3)),
    (1, 31, 6, 130, 24, (1, 2, 0, 0)),
    (1, 4, 31, 64, 64, (0, 1, 2, 0)),
    (1, 17, 18, 5, 64, SAME),
    (1, 1, 6, 24, 16, SAME),
    (3, 12, 12, 33, 50, SAME),
    (1, 6, 5, 2, 17, (3, 3, 3, 3)),
]
LONG_TO_COMPILE = {(size, 4) for size in (SIZES[4], SIZES[5], SIZES[6], SIZES[9])}
PLANNED = [
    pytest.param(
        size,
        outputs,
        id="x".join(map(str, size[:5])) + f" pads {size[5]}-{outputs}",
        marks=[pytest.mark.slow] if (size, outputs) in LONG_TO_COMPILE else [],
    )
    for size in SIZES
    for outputs in OUTPUTS
]


@pytest.mark.needs_cc
@pytest.mark.parametrize("size, outputs", PLANNED)
def test_every_kind_of_plan_computes_the_convolution(size, outputs):
    case = Case(*size)
    choices = (_smallest, _largest) if (SIZES.index(size) + outputs // 2) % 2 else (_largest, _smallest)
    for stored, choice in zip((False, True), choices, strict=True):

        def pick(
            plans: list[WinogradPlan],
            stored: bool = stored,
            choice: Callable[[list[WinogradPlan]], WinogradPlan] = choice,
        ) -> WinogradPlan:
            return choice([p for p in plans if p.stored == stored])

        program = _with_plan(case, pick, outputs)
        assert [s.tag for g in program.groups for s in g.stages][-1] == OUTPUT
        _check(case, _result(case, program), outputs)


@pytest.mark.needs_cc
@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("stored", [False, True], ids=["tiles in local arrays", "tiles in a stage"])
@pytest.mark.parametrize(
    "size", [(7, 7, 12, 70), (11, 14, 16, 24), pytest.param((4, 5, 3, 130), marks=pytest.mark.slow)]
)
def test_a_free_batch_is_computed_whatever_it_is(size, stored, outputs):
    def pick(plans: list[WinogradPlan]) -> WinogradPlan:
        fitting = [p for p in plans if p.stored == stored]
        return max(fitting, key=lambda p: (p.down * p.across % p.rows, p.blocks))

    module = None
    for batch in (1, 2, 5, 0):
        case = Case(batch, *size, free=True)
        if module is None:
            program = _with_plan(case, pick, outputs)
            assert [s.tag for g in program.groups for s in g.stages][-1] == OUTPUT
            module, weights = _module(program), case
        case.weights, case.bias = weights.weights, weights.bias
        result = np.full(case.expected().shape, np.nan, "float32")
        module["conv"](case.image, result)
        if batch:
            _check(case, result, outputs)


@pytest.mark.needs_cc
@pytest.mark.parametrize("machine", [AVX, SSE], ids=["avx", "sse"])
@pytest.mark.parametrize("outputs", OUTPUTS)
def test_vectors_of_other_lengths_compute_it_too(machine, outputs):
    case = Case(1, 9, 11, 13, 22)
    for stored in (False, True):
        program = _with_plan(case, lambda plans, s=stored: next(p for p in plans if p.stored == s), outputs, machine)
        _check(case, _result(case, program, machine), outputs)


@pytest.mark.needs_cc
@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("channels", [16, pytest.param(128, marks=pytest.mark.slow), 512])
def test_the_error_stays_within_the_documented_bound(channels, outputs):
    case = Case(1, 10, 10, channels, 48)
    result = _result(case, _with_plan(case, lambda plans: plans[0], outputs))
    _check(case, result, outputs)


@pytest.mark.needs_cc
@pytest.mark.optimized
def test_it_agrees_with_onnxruntime():
    onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    case = Case(2, 14, 15, 24, 40)
    helper = onnx.helper
    kind = onnx.TensorProto.FLOAT
    nchw = np.asarray(case.image.transpose(0, 3, 1, 2), order="C")
    oihw = np.asarray(case.weights.transpose(3, 2, 0, 1), order="C")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=list(SAME)), helper.make_node("Relu", ["c"], ["y"])],
        "convolution",
        [helper.make_tensor_value_info("x", kind, nchw.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(oihw, "w"), onnx.numpy_helper.from_array(case.bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    want = session.run(None, {"x": nchw})[0].transpose(0, 2, 3, 1)
    for outputs in OUTPUTS:
        got = _result(case, _with_plan(case, lambda plans: plans[-1], outputs))
        np.testing.assert_allclose(got, want, rtol=0, atol=2 * ERRORS[outputs] * np.abs(want).max())


def _run_in_team(library: ctypes.CDLL, case: Case, constants: Sequence[np.ndarray], threads: int) -> np.ndarray:
    """The result of *threads* that call the entry together, as a team does."""
    library.conv_workspace.restype = ctypes.c_int64
    space = np.zeros(library.conv_workspace(None) + 64, "uint8")
    start = -space.ctypes.data % 64
    result = np.full(case.expected().shape, np.nan, "float32")
    arrays = [case.image, *constants, result]
    meeting, state = np.zeros(64, "int32"), np.zeros(32, "int64")

    class Team(ctypes.Structure):
        _fields_ = [
            ("thread", ctypes.c_int64),
            ("threads", ctypes.c_int64),
            ("meeting", ctypes.c_void_p),
            ("run", ctypes.c_void_p),
        ]

    def run(thread: int) -> None:
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        team = Team(thread, threads, meeting.ctypes.data, state.ctypes.data)
        library.conv(pointers, None, ctypes.c_void_p(space.ctypes.data + start), ctypes.byref(team))

    workers = [threading.Thread(target=run, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return result


@pytest.mark.needs_cc
@pytest.mark.parametrize("stored", [False, True], ids=["tiles in local arrays", "tiles in a stage"])
def test_a_team_of_any_size_gives_the_same_bits(stored, tmp_path):
    case = Case(1, 27, 22, 20, 70)
    program = _with_plan(case, lambda plans: next(p for p in plans if p.stored == stored and p.parts > 3), 4)
    (tmp_path / "conv.so").write_bytes(find_compiler().build(emit_programs([program], AVX512), FLAGS))
    library = ctypes.CDLL(os.fspath(tmp_path / "conv.so"))
    constants = [a.numpy() for _, a in program.constants]
    first, *others = [_run_in_team(library, case, constants, threads).tobytes() for threads in (1, 2, 3)]
    assert others == [first, first]
    _check(case, np.frombuffer(first, "float32").reshape(case.expected().shape), 4)


@pytest.mark.needs_cc
def test_an_epilogue_is_any_expression_of_the_place():
    other = np.random.default_rng(3).standard_normal((1, 9, 10, 21)).astype("float32")
    case = Case(1, 9, 10, 8, 21, after=lambda y: relay.sigmoid(relay.add(relay.multiply(y, y), relay.const(other))))
    program = _with_plan(case, lambda plans: plans[0], 4)
    result = np.full(other.shape, np.nan, "float32")
    _module(program)["conv"](case.image, result)
    total = case.expected() ** 2 + other
    np.testing.assert_allclose(result, 1 / (1 + np.exp(-total)), rtol=2e-5, atol=2e-5)


def test_stages_mean_what_the_convolution_means():
    case = Case(2, 5, 6, 3, 4, (1, 0, 2, 1))
    for outputs, stored in product(OUTPUTS, (False, True)):
        plan = WinogradPlan(outputs, 2, 6, 5, 3, 4, 2, 1, 4, 1, stored)
        program = with_plans(case.program, lambda conv, plan=plan: plan)
        values = {t: a.numpy() for t, a in program.constants} | {program.inputs[0]: case.image}
        result = evaluate(program.outputs[0], values)
        np.testing.assert_allclose(result, np.maximum(case.expected(), 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("outputs", OUTPUTS)
def test_the_matrices_are_those_of_a_convolution(outputs):
    t = transforms(outputs)
    rng = np.random.default_rng(outputs)
    d, g = rng.standard_normal(t.size), rng.standard_normal(3)
    inverse, kernel, matrix = (np.array(m, dtype=float) for m in (t.inverse, t.kernel, t.input))
    want = [sum(d[k + i] * g[i] for i in range(3)) for k in range(outputs)]
    np.testing.assert_allclose(inverse @ ((kernel @ g) * (matrix @ d)), want, rtol=1e-12)


@pytest.mark.parametrize("outputs", OUTPUTS)
def test_linear_forms_are_the_products_of_the_matrices(outputs):
    for matrix in (transforms(outputs).input, transforms(outputs).inverse):
        x = placeholder((len(matrix[0]),), "float64", "x")
        kept = []

        def keep(value, kept=kept):
            kept.append(value)
            return value

        forms = linear_forms(matrix, [x[k] for k in range(len(matrix[0]))], keep)
        values = np.random.default_rng(1).standard_normal(len(matrix[0]))
        got = [evaluate(compute((1,), lambda _, f=f: f), {x: values})[0] for f in forms]
        np.testing.assert_allclose(got, np.array(matrix, dtype=float) @ values, rtol=1e-12)
        assert len(kept) >= len(matrix) // 2  # halves are shared


@pytest.mark.parametrize("layout", ["HWIO", "OHWI", "HWOI"])
def test_a_convolution_is_known_by_its_loads_whatever_the_layout_of_its_weights(layout):
    case = Case(1, 8, 9, 4, 6, kernel_layout=layout)
    (found,) = _found(case.program)
    assert found.channels == 4 and found.inside == ((1, 9), (1, 10))
    assert [layout[k] for k in found.order if k is not None] == ["H", "W", "I", "O"]


def _program_of(kernel: tuple[int, int] = (3, 3), **attrs: object) -> Program:
    groups = int(attrs.get("groups", 1))  # type: ignore[call-overload]
    x = relay.var("x", shape=(1, 12, 12, 8))
    w = relay.const(np.ones((*kernel, 8 // groups, 8), "float32"))
    y = relay.nn.conv2d(x, w, channels=8, kernel_size=kernel, data_layout="NHWC", kernel_layout="HWIO", **attrs)
    return lower_function(_function(Function([x], y)), "conv")


def test_other_convolutions_are_left_as_they_are():
    assert len(_found(_program_of())) == 1
    for attrs in ({"strides": (2, 2)}, {"dilation": (2, 2)}, {"groups": 2}, {"kernel": (5, 5)}, {"kernel": (1, 3)}):
        assert _found(_program_of(**attrs)) == []


def test_weights_that_are_not_constant_are_left_as_they_are():
    x, w = relay.var("x", shape=(1, 12, 12, 8)), relay.var("w", shape=(3, 3, 8, 8))
    y = relay.nn.conv2d(x, w, channels=8, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWIO")
    assert _found(lower_function(_function(Function([x, w], y)), "conv")) == []


def _outputs_of(program: Program) -> list[int]:
    plans = [s.meta.get(META) for g in program.groups for s in g.stages if s.tag == OUTPUT]
    return [p.outputs for p in plans if isinstance(p, WinogradPlan)]


def _prepared(options: dict[str, object]) -> Iterator[int]:
    return iter(_outputs_of(prepare(Case(1, 28, 28, 32, 32).program, AVX512, allowed=WinogradOptions.of(options))))


def test_the_model_takes_it_for_large_images_and_leaves_small_ones():
    assert _outputs_of(prepare(Case(1, 56, 56, 64, 64).program, AVX512)) == [4]
    assert _outputs_of(prepare(Case(1, 28, 28, 128, 128).program, AVX512)) == [4]
    assert _outputs_of(prepare(Case(1, 3, 3, 64, 64).program, AVX512)) == []
    assert _outputs_of(prepare(Case(1, 56, 56, 3, 64).program, AVX512)) == []
    assert _outputs_of(prepare(Case(1, 56, 56, 64, 64).program, Machine(4, 8, 16))) == []


def test_options_say_how_much_error_is_allowed():
    assert list(_prepared({})) == [4]
    assert list(_prepared({"winograd": "off"})) == []
    assert list(_prepared({"winograd": "f2"})) == [2]
    assert list(_prepared({"winograd": "f4"})) == [4]
    assert list(_prepared({"max_error": 5e-6})) == [2]
    assert list(_prepared({"max_error": 0})) == []
    assert list(_prepared({"strict": True})) == []
    assert list(_prepared({"strict": True, "winograd": "f4"})) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"winograd": "f8"}, "option 'winograd' of backend c is one of auto, off, f2, f4, got 'f8'"),
        ({"strict": 1}, "option 'strict' of backend c is True or False, got 1"),
        ({"max_error": -1}, "option 'max_error' of backend c is a number from 0 on, got -1"),
        ({"max_error": float("nan")}, "option 'max_error' of backend c is a number from 0 on, got nan"),
    ],
)
def test_a_wrong_option_is_refused(options, message):
    with pytest.raises(CompileError, match=message):
        WinogradOptions.of(options)


@pytest.mark.needs_cc
def test_the_backend_hands_its_options_on():
    case = Case(1, 28, 28, 32, 32)
    direct, fast = (compile_functions({"conv": case.function}, {"winograd": w}) for w in ("off", "f4"))
    names = [[c.name for c in m.signatures["conv"].constants] for m in (direct, fast)]
    assert [any("winograd" in n for n in found) for found in names] == [False, True]


def test_a_padded_copy_that_another_reads_is_kept():
    x = relay.var("x", shape=(1, 12, 12, 16))
    padded = relay.nn.pad(x, pad_width=((0, 0), (1, 1), (1, 1), (0, 0)))
    w = relay.const(np.random.default_rng(0).standard_normal((3, 3, 16, 16)).astype("float32"))
    y = relay.nn.conv2d(padded, w, channels=16, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWIO")
    program = lower_function(_function(Function([x], relay.Tuple([y, padded]))), "conv")
    new = with_plans(program, lambda conv: next(candidates(conv, AVX512, 4)))
    assert [s.tag for g in new.groups for s in g.stages].count(OUTPUT) == 1
    assert len(new.outputs) == 2 and all(any(o in g.stages for g in new.groups) for o in new.outputs)


def test_equal_weights_are_transformed_once_and_to_the_same_bytes():
    def arrays() -> list[bytes]:
        program = with_plans(Case(1, 8, 8, 4, 6).program, lambda conv: next(candidates(conv, AVX512, 4)))
        return [a.numpy().tobytes() for _, a in program.constants]

    assert arrays() == arrays()


def test_a_plan_stays_on_the_stack_that_threads_have():
    (conv,) = _found(Case(1, 14, 14, 512, 64).program)
    for outputs in OUTPUTS:
        plans = list(candidates(conv, AVX512, outputs))
        assert plans and all(p.local_bytes <= 384 << 10 for p in plans)
    assert isinstance(convolution(conv.stage, [conv.weights], Simplifier()), Convolution)


def test_who_tunes_is_asked_and_decides():
    program, asked = Case(1, 28, 28, 32, 32).program, SpaceCollector()
    assert _outputs_of(prepare(program, AVX512, asked)) == [4]
    space = next(q for q in asked.spaces.values() if DIRECT in [c for _, c in q.ranked])
    assert [c for c, _ in space.ranked] == sorted(c for c, _ in space.ranked)
    f2 = next(c for _, c in space.ranked if c.kind == "winograd" and c["outputs"] == 2)
    assert _outputs_of(prepare(program, AVX512, Fixed({space.kernel: DIRECT}))) == []
    assert _outputs_of(prepare(program, AVX512, Fixed({space.kernel: f2}))) == [2]
    strict = WinogradOptions.of({"max_error": 0})
    assert _outputs_of(prepare(program, AVX512, Fixed({space.kernel: f2}), strict)) == []


def test_the_kernel_to_measure_asks_the_same_question():
    asked, again = SpaceCollector(), SpaceCollector()
    prepare(Case(1, 28, 28, 32, 32).program, AVX512, asked)
    (space,) = asked.spaces.values()
    prepare(kernel_program(space, "alone"), AVX512, again)
    assert space.kernel in again.spaces


@pytest.mark.needs_cc
def test_every_way_can_be_measured_alone_with_the_padding_that_it_needs():
    case, asked = Case(1, 14, 14, 24, 32), SpaceCollector()
    prepare(case.program, AVX512, asked)
    space = next(q for q in asked.spaces.values() if DIRECT in [c for _, c in q.ranked])
    results = []
    for choice in (DIRECT, space.expected):
        alone = prepare(kernel_program(space, "conv"), AVX512, Fixed({space.kernel: choice}))
        assert len(alone.inputs) == 1 and alone.inputs[0].shape == case.image.shape
        assert (alone.groups[0].stages[-1].tag == OUTPUT) == (choice != DIRECT)
        results.append(_result(case, alone))
    _check(case, results[0], 4)
    _check(case, results[1], 4)


def test_the_emitted_c_is_what_was_read_and_approved(golden):
    plan = WinogradPlan(2, 1, 3, 5, 8, 12, rows=2, vectors=1, lanes=8, blocks=2, stored=True)
    program = prepare(with_plans(Case(1, 3, 5, 8, 12).program, lambda conv: plan), AVX, None, WinogradOptions(()))
    source = emit_programs([program], AVX)
    golden("c/winograd.c", source[source.index("/* p0:") : source.index("int64_t conv_workspace(")])
