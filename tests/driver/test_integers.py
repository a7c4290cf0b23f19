"""What a model quantizes reaches backends as integer operators; what targets declare is quantized before the cut."""

import numpy as np
import onnx
import pytest
from quantized_nets import SMALL, Net, quantized, samples, small_net

import byoc
import byoc.contrib.npu
from byoc import relay
from byoc.cli.main import main
from byoc.cli.report.quantization_text import quantization_lines
from byoc.contract import BACKENDS, Backend, PatternEntry, Quantized, accept, callee_name, refuse, register_backend
from byoc.driver.compiler.plan import simplify_and_plan
from byoc.driver.compiler.target_integers import exact_operators, takes_integers, with_integers
from byoc.driver.compiler.target_quantization import target_quantization
from byoc.driver.model import module_of
from byoc.driver.onnx_placement import with_placement
from byoc.driver.options import PlanRequest
from byoc.driver.pipeline import optimize
from byoc.driver.quantization import Calibration
from byoc.driver.vm import compile_module
from byoc.errors import PartitionError, UserError
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay.analysis.operator_calls import op_name
from byoc.relay.dataflow_pattern import is_constant, is_op, wildcard
from byoc.relay.expr import Call
from byoc.relay.interpreter import evaluate
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.relay.qnn.data_dtype import ChangeDataDtype
from byoc.relay.traverse import post_order
from byoc.runtime.core.device import cpu
from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.vm.virtual_machine import VirtualMachine

pytest.importorskip("onnxruntime")


class EthosLike(Backend):
    """A table as Arm's Ethos-N has it in Relay: nothing is declared, the patterns say it."""

    name = "ethos_like"

    def compile(self, function, options):
        raise AssertionError("nothing is compiled here")

    def patterns(self):
        data = is_op("nn.pad")(wildcard(), wildcard()) | wildcard()
        total = is_op("qnn.conv2d")(data, *(is_constant() for _ in range(5)))
        biased = is_op("nn.bias_add")(total, is_constant())
        made = is_op("qnn.requantize")(biased, *(is_constant() for _ in range(4)))
        return [PatternEntry("ethos_like.qnn_conv2d", made)]

    def supports(self, call):
        taken = callee_name(call) == "ethos_like.qnn_conv2d"
        return accept(call) if taken else refuse(call, "operator", "convolutions", callee_name(call))


@pytest.fixture
def ethos():
    register_backend(EthosLike)
    yield "ethos_like"
    for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
        registry.unregister("ethos_like")
    GLOBAL_FUNCTIONS.unregister("relay.ext.ethos_like")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("integers")
    plain = small_net(folder / "small.onnx")
    return plain, quantized(plain, folder / "qdq.onnx", samples(SMALL))


def operators(mod):
    return [op_name(n) for n in post_order(mod["main"].body) if isinstance(n, Call) and op_name(n)]


def test_a_pattern_of_qnn_operators_matches_on_a_qdq_file(files, ethos):
    plan = byoc.plan(files[1], targets=[ethos, "c"])
    assert [d.operator for d in plan.decisions if d.target == ethos] == ["ethos_like.qnn_conv2d"] * 4


def test_scales_and_zero_points_reach_the_backend_as_constants(files, ethos):
    mod, plan = simplify_and_plan(PlanRequest(files[1], targets=[ethos, "c"]))
    cut = plan.apply(mod)
    found = [
        n
        for f in cut.functions.values()
        if "Compiler" in f.attrs
        for n in post_order(f)
        if op_name(n) in ("qnn.conv2d", "qnn.requantize")
    ]
    assert len(found) == 8
    assert all(isinstance(a, relay.Constant) for n in found for a in n.args[1:])


def test_only_who_declares_integers_or_matches_them_gets_them(ethos):
    assert takes_integers(EthosLike())
    assert takes_integers(byoc.contrib.npu.Npu())
    assert not takes_integers(byoc.contract.get_backend("json"))
    assert not takes_integers(byoc.contract.get_backend("c"))


def test_an_imported_model_has_quantized_operators_and_the_hosts_arithmetic_has_none(files):
    mod = module_of(files[1])
    assert "qnn.quantize" in operators(mod)
    assert not any(name.startswith("qnn.") for name in operators(optimize(mod)))


@pytest.mark.needs_cc
@pytest.mark.parametrize("activations", ["QInt8", "QUInt8"])
def test_what_stays_on_the_host_has_onnx_runtimes_numbers(tmp_path, ethos, activations, exact_bytes):
    """Sums, means and the dense layer of a cut model are computed as ONNX says, not as Relay lowers them."""
    import onnxruntime

    class Nothing(EthosLike):
        def supports(self, call):
            return refuse(call, "operator", "nothing", callee_name(call))

    path = quantized(small_net(tmp_path / "small.onnx"), tmp_path / "qdq.onnx", samples(SMALL), activations)
    BACKENDS.register("ethos_like", Nothing(), override=True)
    library = byoc.compile(path, targets=[ethos, "c"])
    session = onnxruntime.InferenceSession(path)
    for sample in samples(SMALL, 4, seed=3):
        np.testing.assert_allclose(library.run(sample)[0], session.run(None, sample)[0], atol=1e-5)


def test_means_that_would_be_cut_off_stay_in_floats():
    assert "nn.global_avg_pool2d" not in exact_operators()
    assert {"nn.conv2d", "nn.dense", "add", "nn.max_pool2d"} <= set(exact_operators())


def test_data_without_a_sign_is_moved_for_a_backend_of_int8(tmp_path):
    path = quantized(small_net(tmp_path / "small.onnx"), tmp_path / "qdq.onnx", samples(SMALL), "QUInt8")
    mod = optimize(module_of(path), integers=True)
    changed = relay.transform.InferType()(ChangeDataDtype("int8")(mod))
    quantizes = [n for n in post_order(changed["main"].body) if op_name(n) == "qnn.quantize"]
    assert {n.attrs.out_dtype for n in quantizes} == {"int8"}
    sample = samples(SMALL, 1)[0]["x"]
    np.testing.assert_array_equal(evaluate(changed, [sample]), evaluate(mod, [sample]))


def test_a_module_written_in_qnn_keeps_relays_arithmetic():
    """Its roundings are those that it says, whoever computes it."""
    x = relay.var("x", shape=(2, 8), dtype="float32")
    number = (relay.const(np.float32(0.1)), relay.const(np.int32(3)))
    data = relay.qnn.op.quantize(x, *number, out_dtype="int8")
    doubled = relay.qnn.op.add(data, data, *number, *number, *number)
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], doubled)))
    assert operators(optimize(mod)) == ["qnn.quantize", "qnn.add"]


@pytest.mark.needs_cc
def test_samples_quantize_what_a_target_declares_before_the_cut(files):
    library = byoc.compile(files[0], targets=["int8_npu", "c"], precision="int8", calibration=samples(SMALL))
    taken = [d["operator"] for d in library.report["plan"]["decisions"] if d["target"] == "int8_npu"]
    assert sorted(taken) == ["int8_npu.add", *["int8_npu.conv2d"] * 4, "int8_npu.dense", "nn.max_pool2d"]
    reported = library.report["quantization"]
    assert reported["targets"] == ["int8_npu"]
    assert reported["errors"]["y"] < 0.05
    for row in reported["ranges"]:
        assert row["low"] <= 0.0 <= row["high"]
        assert 0.0 <= row["error"] < 0.05
        assert row["dtype"] == "int8"
        assert row["scale"] > 0.0
    sample = samples(SMALL, 1, seed=9)[0]
    expected = byoc.compile(files[0], targets=["c"]).run(sample)[0]
    assert np.linalg.norm(library.run(sample)[0] - expected) < 0.05 * np.linalg.norm(expected)


def quantized_module(path, **calibration):
    """The module that precision int8 makes of a model for the NPU, before it is planned."""
    from byoc.driver.compiler.compile import CompileOptions, build_host

    given = Calibration(samples(SMALL), **calibration)
    mod = optimize(module_of(path), integers=True)
    options = CompileOptions()
    return target_quantization(given, (), ["int8_npu"]).quantized(mod, lambda probe: build_host(probe, options))


@pytest.mark.needs_cc
def test_a_tensor_that_several_read_is_quantized_once_and_an_output_dequantized_once(tmp_path):
    net = Net()
    first = net.conv("x", 3, 8, 3, relu=True)
    branches = [net.conv(first, 8, 8, 3, relu=True), net.conv(first, 8, 8, 1), net.conv("x", 3, 8, 3)]
    joined = net.node("Add", net.node("Add", branches[0], branches[1]), branches[2])
    net.node("Sigmoid", joined)
    path = net.save(tmp_path / "m.onnx", SMALL, "y", (1, 8, 16, 16))
    found = operators(quantized_module(path))
    assert found.count("qnn.quantize") == 1  # of the input, which two convolutions read
    assert found.count("qnn.dequantize") == 1  # of the last sum
    assert found.count("qnn.conv2d") == 4
    assert found.count("qnn.add") == 2


@pytest.mark.needs_cc
def test_what_the_host_computes_between_two_regions_is_quantized_at_both_borders(tmp_path):
    net = Net()
    middle = net.node("Sigmoid", net.conv("x", 3, 8, 3))
    net.node("Add", net.conv(middle, 8, 8, 3), net.conv(middle, 8, 8, 1))
    path = net.save(tmp_path / "m.onnx", SMALL, "y", (1, 8, 16, 16))
    found = operators(quantized_module(path))
    assert (found.count("qnn.quantize"), found.count("qnn.dequantize"), found.count("sigmoid")) == (2, 2, 1)


@pytest.mark.needs_cc
@pytest.mark.parametrize("method", ["minmax", "percentile", "mse", "entropy"])
def test_zero_points_and_scales_are_of_the_form_that_is_declared(files, method):
    mod = quantized_module(files[0], method=method)
    for node in post_order(mod["main"].body):
        if op_name(node) == "qnn.quantize":
            scale, zero = (float(a.data.numpy()) for a in node.args[1:])
            assert scale > 0.0
            assert -128 <= zero <= 127


@pytest.mark.needs_cc
def test_symmetric_and_per_tensor_are_honoured(files, monkeypatch):
    form = Quantized(operators=byoc.contrib.npu.Npu.quantized.operators, symmetric=True, per_channel=False)
    monkeypatch.setattr(byoc.contrib.npu.Npu, "quantized", form)
    mod = quantized_module(files[0])
    nodes = list(post_order(mod["main"].body))
    assert {int(n.args[2].data.numpy()) for n in nodes if op_name(n) == "qnn.quantize"} == {0}
    assert {n.args[5].data.numpy().size for n in nodes if op_name(n) == "qnn.conv2d"} == {1}


@pytest.mark.needs_cc
def test_what_is_not_finite_on_a_sample_stays_in_floats(tmp_path):
    net = Net()
    logarithm = net.node("Log", "x", name="log")  # of negative numbers too
    net.node("Add", net.conv(logarithm, 3, 8, 3, "lost"), net.conv("x", 3, 8, 3, "kept"))
    path = net.save(tmp_path / "m.onnx", SMALL, "y", (1, 8, 16, 16))
    how = {"precision": "int8", "calibration": samples(SMALL)}
    library = byoc.compile(path, targets=["int8_npu", "c"], **how)
    taken = [d["nodes"] for d in library.report["plan"]["decisions"] if d["operator"] == "int8_npu.conv2d"]
    assert taken == [["kept"]]
    left = library.report["quantization"]["left"]
    assert {"operator": "nn.conv2d", "nodes": ["lost"], "code": "not_finite"} in left
    assert np.isnan(library.run(samples(SMALL, 1)[0])[0]).any()


def test_missing_samples_are_an_error_where_a_target_needs_them(files):
    with pytest.raises(UserError, match="precision int8: int8_npu computes on integers whose ranges must be known"):
        byoc.compile(files[0], targets=["int8_npu", "c"], precision="int8")


@pytest.mark.needs_cc
def test_a_model_of_its_own_integers_needs_no_samples(files):
    library = byoc.compile(files[1], targets=["int8_npu", "c"], precision="int8")
    assert any(m.type_key == "int8_npu" for m in library.module.imports)


@pytest.mark.needs_cc
def test_what_the_user_keeps_stays_in_floats(files):
    how = {"precision": "int8", "calibration": samples(SMALL), "keep_f32": ["depthwise"]}
    library = byoc.compile(files[0], targets=["int8_npu", "c"], **how)
    kept = [d for d in library.report["plan"]["decisions"] if "depthwise" in d["nodes"] and d["target"] == "int8_npu"]
    assert kept == []
    left = library.report["quantization"]["left"]
    assert {"operator": "nn.conv2d", "nodes": ["depthwise"], "code": "kept"} in left


@pytest.mark.needs_cc
def test_an_error_that_is_too_large_is_an_error(files):
    with pytest.raises(UserError, match="more than max_error"):
        how = byoc.Calibration(samples(SMALL), max_error=1e-6)
        byoc.compile(files[0], targets=["int8_npu", "c"], precision="int8", calibration=how)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"data": "int4"}, "data is int8 or uint8"),
        ({"operators": ("nn.conv7d",)}, "no operator is called 'nn.conv7d'"),
        ({"rounding": "DOWN"}, "rounding is one of UPWARD, TONEAREST, TOEVEN"),
        ({"rounding": "TOEVEN", "compute_dtype": "int64"}, "computed in floats"),
    ],
)
def test_a_declaration_that_means_nothing_is_an_error(wrong, message):
    with pytest.raises(PartitionError, match=message):
        Quantized(**wrong)


def test_what_is_made_integers_means_what_the_file_says(files, exact_bytes):
    """The whole integer module by the reference kernels, against the file by ONNX Runtime."""
    import onnxruntime

    mod = with_integers(optimize(module_of(files[1]), integers=True), [EthosLike()])
    assert "nn.conv2d" not in operators(mod)
    sample = samples(SMALL, 1)[0]
    want = onnxruntime.InferenceSession(files[1]).run(None, sample)[0]
    found = evaluate(mod, [sample["x"]])
    assert np.linalg.norm(found - want) < 0.05 * np.linalg.norm(want)


INT8 = {"precision": "int8", "calibration": samples(SMALL)}


@pytest.mark.needs_cc
def test_a_plan_in_int8_is_that_of_the_compiled_model_and_compiles_to_it(files):
    given = {"precision": "int8", "calibration": iter(samples(SMALL))}  # which can be read once
    plan = byoc.plan(files[0], targets=["int8_npu", "c"], **given)
    library = byoc.compile(files[0], targets=["int8_npu", "c"], **INT8)
    assert type(plan).from_json(library.report["plan"]).decisions == plan.decisions
    assert sum(d.operator == "int8_npu.conv2d" for d in plan.decisions) == 4
    again = byoc.compile(files[0], plan=plan, **INT8)
    sample = samples(SMALL, 1, seed=9)[0]
    np.testing.assert_array_equal(again.run(sample)[0], library.run(sample)[0])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"precision": "int8"}, UserError, "int8_npu computes on integers whose ranges must be known when compiling"),
        (
            {"calibration": samples(SMALL)},
            UserError,
            'calibration is for precision="int8" and "fp16", got precision=\'f32\'',
        ),
        ({**INT8, "keep_f32": ["depthwize"]}, UserError, "is called 'depthwize'; the nearest: depthwise"),
        ({**INT8, "calibration": []}, UserError, "there are no samples"),
    ],
)
def test_what_a_plan_in_int8_needs_is_said_when_it_is_missing(files, given, error, message):
    with pytest.raises(error, match=message):
        byoc.plan(files[0], targets=["int8_npu", "c"], **given)


@pytest.mark.needs_cc
def test_a_plan_in_int8_is_not_for_the_model_in_floats(files):
    plan = byoc.plan(files[0], targets=["int8_npu", "c"], **INT8)
    with pytest.raises(PartitionError, match="make it again, for the shapes, the precision and the samples"):
        byoc.compile(files[0], plan=plan)


@pytest.mark.needs_cc
@pytest.mark.parametrize("number", [0, 1])
def test_the_devices_that_a_model_names_get_integers(files, number):
    """Policy model, of a model in floats with samples and of one that quantizes itself: nothing else names a target."""
    given = INT8 if number == 0 else {}
    wanted = byoc.plan(files[number], targets=["int8_npu", "c"], **given)
    carried, _ = with_placement(onnx.load(files[number]), wanted)
    plan = byoc.plan(carried, policy="model", **given)
    assert [(d.operator, d.target) for d in plan.decisions] == [(d.operator, d.target) for d in wanted.decisions]
    library = byoc.compile(carried, policy="model", **given)
    assert any(m.type_key == "int8_npu" for m in library.module.imports)


@pytest.mark.needs_cc
@pytest.mark.parametrize("number", [0, 1])
def test_the_virtual_machine_has_the_bits_of_a_library(files, number):
    given = INT8 if number == 0 else {}
    mod, plan = simplify_and_plan(PlanRequest(files[number], targets=["int8_npu", "c"], **given))
    machine = VirtualMachine(compile_module(plan.apply(mod)), cpu())
    library = byoc.compile(files[number], targets=["int8_npu", "c"], **given)
    sample = samples(SMALL, 1, seed=9)[0]
    np.testing.assert_array_equal(machine.invoke("main", sample["x"]).numpy(), library.run(sample)[0])


@pytest.fixture
def flags(tmp_path):
    """What a command line says of int8 for the NPU."""
    np.savez(tmp_path / "samples.npz", x=np.stack([s["x"] for s in samples(SMALL)]))
    return ["--target", "int8_npu", "--precision", "int8", "--calibrate", str(tmp_path / "samples.npz")]


@pytest.mark.needs_cc
def test_the_command_line_plans_in_int8_and_compiles_such_a_plan(files, flags, tmp_path, capsys):
    model, plan = str(files[0]), str(tmp_path / "plan.json")
    assert main(["plan", model, *flags, "-o", plan]) == 0
    assert "qnn.conv2d x4" in capsys.readouterr().out
    assert main(["compile", model, *flags[2:], "--plan", plan, "-o", str(tmp_path / "m.byoc")]) == 0
    shown = capsys.readouterr().out
    assert "qnn.conv2d x4" in shown
    assert "int8 of int8_npu, by 3 samples (minmax):" in shown
    rows = [line.split() for line in shown.splitlines() if line.endswith("%") and " int8 " in line]
    report = byoc.runtime.load(tmp_path / "m.byoc").report["quantization"]
    assert [float(row[-1].rstrip("%")) for row in rows] == [round(100 * r["error"], 2) for r in report["ranges"]]
    assert [(float(low), float(high)) for low, high in (row[-5:-3] for row in rows)] == [
        (float(f"{r['low']:.4g}"), float(f"{r['high']:.4g}")) for r in report["ranges"]
    ]
    assert main(["inspect", str(tmp_path / "m.byoc")]) == 0
    assert "\n".join(line for line in shown.splitlines() if line.endswith("%")) in "\n".join(
        line for line in capsys.readouterr().out.splitlines() if line.endswith("%")
    )


def test_samples_that_are_missing_are_one_sentence_on_the_command_line(files, capsys):
    assert main(["compile", str(files[0]), "--target", "int8_npu", "--precision", "int8"]) == 2
    reported = capsys.readouterr().err.strip()
    assert reported.startswith("byoc compile: precision int8: int8_npu computes on integers") and "\n" not in reported
    assert reported.endswith("give samples of the model's inputs as calibration (--calibrate)")


@pytest.mark.parametrize(
    "wrong",
    [
        {"ranges": [{"nodes": ["a"], "dtype": "int8", "low": "0", "high": 1.0}]},
        {"ranges": 3},
        {"errors": {"y": None}},
        {"left": ["a"]},
        {"targets": "int8_npu"},
    ],
)
def test_a_report_that_somebody_else_wrote_is_refused(wrong):
    with pytest.raises(ArtifactError, match="quantization"):
        quantization_lines({"quantization": wrong})


@pytest.mark.slow
@pytest.mark.needs_cc
def test_other_commands_that_plan_take_samples(files, flags, tmp_path, capsys):
    model = str(files[0])
    commands = [
        (["explain", model, *flags, "--node", "depthwise"], "int8_npu.conv2d"),
        (["explain", model, *flags, "--all"], "qnn.conv2d"),
        (["compile", model, *flags, "--policy", "score", "-o", str(tmp_path / "m.byoc")], "qnn.conv2d x4"),
    ]
    for command, shown in commands:
        assert main(command) == 0
        assert shown in capsys.readouterr().out
