"""PlanDevices under TVM's names: one annotation, and a default device that is another."""

from __future__ import annotations

import pytest

T = "Tensor[(5, 7), float32]"


@pytest.fixture
def plan(tvm, relay):
    """The text of a program after the pass, without types and metadata; GPU is the default device."""
    host = tvm.target.Target("llvm")
    cpu = tvm.target.VirtualDevice(tvm.cpu(), host.with_host(host))
    gpu = tvm.target.VirtualDevice(tvm.device("cuda"), tvm.target.Target("cuda").with_host(host))
    context = tvm.transform.PassContext(config={"relay.fallback_device_type": gpu.device_type_int})
    config = tvm.target.make_compilation_config(context, [cpu.target, gpu.target])
    table = {"VirtualDevice": [cpu, gpu]}

    def run(body, params):
        names = ", ".join(f"%{name}: {T}" for name in params)
        text = f'#[version = "0.0.5"]\ndef @main({names}) {{ {body} }}'
        mod = relay.transform.InferType()(tvm.relay.parse(text, "from_string", tvm.IRModule(), table))
        return relay.transform.PlanDevices(config)(mod)["main"], cpu, gpu

    return run


def _spelled(func):
    """The calls of a function, outermost first, each with the names of its operands."""
    lines = []

    def name(expr):
        return expr.name_hint if hasattr(expr, "name_hint") else expr.op.name

    pending = [func.body]
    while pending:
        call = pending.pop(0)
        lines.append(f"{call.op.name}({', '.join(map(name, call.args))})")
        pending += [arg for arg in call.args if hasattr(arg, "args")]
    return lines


def test_an_annotated_operand_is_copied_to_the_default_device(plan):
    main, cpu, gpu = plan(
        "%0 = add(%a, %b); %1 = on_device(%0, virtual_device=meta[VirtualDevice][0]); subtract(%1, %c)", "abc"
    )
    assert _spelled(main) == ["subtract(device_copy, c)", "device_copy(on_device)", "on_device(add)", "add(a, b)"]
    assert [p.virtual_device_ for p in main.params] == [cpu, cpu, gpu] and main.virtual_device_ == gpu
    attrs = main.body.args[0].attrs
    assert (attrs.src_virtual_device, attrs.dst_virtual_device) == (cpu, gpu)
    kept = main.body.args[0].args[0].attrs
    assert kept.constrain_result and kept.constrain_body and kept.virtual_device == cpu


def test_an_operand_that_both_read_puts_everything_where_it_is(plan):
    # one parameter has one device: as in Relay, the other operands of a primitive follow
    main, cpu, _ = plan(
        "%0 = add(%a, %b); %1 = on_device(%0, virtual_device=meta[VirtualDevice][0]); subtract(%1, %b)", "ab"
    )
    assert _spelled(main) == ["subtract(add, b)", "add(a, b)"]
    assert main.virtual_device_ == cpu and {p.virtual_device_ for p in main.params} == {cpu}


def test_an_annotated_result_alone_needs_no_copy(plan):
    main, cpu, _ = plan("%0 = add(%a, %b); on_device(%0, virtual_device=meta[VirtualDevice][0])", "ab")
    assert _spelled(main) == ["add(a, b)"] and main.virtual_device_ == cpu


def test_an_annotated_parameter_is_copied(plan):
    main, cpu, gpu = plan("%0 = on_device(%a, virtual_device=meta[VirtualDevice][0]); add(%0, %b)", "ab")
    assert _spelled(main) == ["add(device_copy, b)", "device_copy(a)"]
    assert [p.virtual_device_ for p in main.params] == [cpu, gpu]


def test_a_chain_goes_there_and_back(plan):
    main, _, gpu = plan(
        "%0 = abs(%a); %1 = on_device(%0, virtual_device=meta[VirtualDevice][1]); %2 = negative(%1); "
        "%3 = on_device(%2, virtual_device=meta[VirtualDevice][0]); exp(%3)",
        "a",
    )
    found = _spelled(main)
    assert [line for line in found if "device_copy(" in line[:12]] == ["device_copy(on_device)"] * 2
    assert [line.partition("(")[0] for line in found if line[:2] not in ("on", "de")] == ["exp", "negative", "abs"]
    assert main.params[0].virtual_device_ == gpu and main.virtual_device_ == gpu


def test_the_builder_s_annotation_says_the_same(tvm, relay):
    host = tvm.target.Target("llvm")
    config = tvm.target.make_compilation_config(
        tvm.transform.PassContext(config={"relay.fallback_device_type": 2}), [host, tvm.target.Target("cuda")]
    )
    x, y, z = (relay.var(name, shape=(3,)) for name in "xyz")
    body = relay.multiply(relay.annotation.on_device(relay.add(x, y), tvm.cpu()), z)
    main = relay.transform.PlanDevices(config)(tvm.IRModule.from_expr(relay.Function([x, y, z], body)))["main"]
    assert [p.virtual_device_.device_type_int for p in main.params] == [1, 1, 2]
    assert main.body.args[0].op == relay.op.get("device_copy")
