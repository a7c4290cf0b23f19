"""PlanDevices, text in and text out: annotations become a device for every value, and copies between them."""

import pytest

from byoc.annex.devices.compilation_config import make_compilation_config
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.ir.passes.transform import PassContext
from byoc.ir.registry import get_global_func
from byoc.ir.target import Target
from byoc.ir.virtual_device import VirtualDevice
from byoc.relay import analysis, annotation, assert_structural_equal, const, device_copy, parse, structural_equal, var
from byoc.relay import op as ops
from byoc.relay.expr import Call, Function
from byoc.relay.transform import FuseOps, InferType, PlanDevices, RemoveDeviceAnnotations
from byoc.relay.traverse import post_order
from byoc.runtime.core.device import Device

LLVM = Target("llvm")
CPU = VirtualDevice(Device("cpu"), LLVM.with_host(LLVM))
GPU = VirtualDevice(Device("cuda"), Target("cuda").with_host(LLVM))
HOST = VirtualDevice(Device("cpu"), LLVM)
CONTEXT = PassContext(config={"relay.fallback_device_type": GPU.device_type_int})
CONFIG = make_compilation_config(CONTEXT, [CPU.target, GPU.target])
T = "Tensor[(5, 7), float32]"
C, G = "meta[VirtualDevice][0]", "meta[VirtualDevice][1]"
CV, GV = f"virtual_device={C}", f"virtual_device={G}"


def module(text, devices=(CPU, GPU), **tables):
    table = {"VirtualDevice": list(devices), **tables}
    return InferType()(parse(f'#[version = "0.0.5"]\n{text}', "from_string", None, table))


def places(mod):
    """Where the parameters and the results of all functions are, outermost last."""
    found = []
    for func in mod.functions.values():
        for node in post_order(func):
            if isinstance(node, Function):
                found.append(([p.virtual_device_ for p in node.params], node.virtual_device_))
    return found


def check(text, expected, devices=(CPU, GPU), **tables):
    actual, wanted = PlanDevices(CONFIG)(module(text, devices, **tables)), module(expected, devices, **tables)
    assert_structural_equal(actual, wanted, map_free_vars=True)
    assert places(actual) == places(wanted)


def params(names, devices=""):
    """``%a: T``, and for the expected text the device of each: c or g."""
    each = {"c": f" {{{CV}}}", "g": f" {{{GV}}}", "": ""}
    pairs = zip(names, devices or [""] * len(names), strict=True)
    return ", ".join(f"%{name}{each[d]}: {T}" for name, d in pairs)


ABCD = f"def @main({params('abcd')})"


def on_cpu(name, kept=False):
    return f"on_device({name}, {CV}{', constrain_result=True' if kept else ''})"


def copied(name, source=C, target=G):
    return f"device_copy({name}, src_virtual_device={source}, dst_virtual_device={target})"


def test_without_annotations_everything_is_on_the_default_device():
    body = "{ %0 = add(%a, %b); %1 = add(%c, %d); subtract(%0, %1) }"
    check(f"{ABCD} {body}", f"def @main({params('abcd', 'gggg')}, {GV}) {body}")


LEFT = (
    f"def @main({params('abcd', 'ccgg')}, {GV}) {{ %0 = add(%a, %b); %1 = {on_cpu('%0', True)}; "
    f"%2 = {copied('%1')}; "
    "%3 = add(%c, %d); subtract(%2, %3) }"
)


def test_an_annotated_value_is_copied_to_where_it_is_used_and_its_inputs_follow_it():
    check(f"{ABCD} {{ %0 = add(%a, %b); %1 = {on_cpu('%0')}; %2 = add(%c, %d); subtract(%1, %2) }}", LEFT)


def test_a_copy_that_the_program_asks_for_says_as_much():
    check(f"{ABCD} {{ %0 = add(%a, %b); %1 = {copied('%0')}; %2 = add(%c, %d); subtract(%1, %2) }}", LEFT)


def test_a_copy_from_a_device_to_itself_goes():
    check(
        f"def @main({params('a')}) {{ %0 = {copied('%a', C, C)}; abs(%0) }}",
        f"def @main({params('a', 'c')}, {CV}) {{ abs(%a) }}",
    )


def test_each_annotation_of_a_shared_value_is_a_copy():
    text = (
        f"def @main({params('ab')}) {{ %0 = add(%a, %b); %1 = {on_cpu('%0')}; %2 = {on_cpu('%0')}; subtract(%1, %2) }}"
    )
    check(
        text,
        f"def @main({params('ab', 'cc')}, {GV}) {{ %0 = add(%a, %b); %1 = {on_cpu('%0', True)}; "
        f"%2 = {on_cpu('%0', True)}; %3 = {copied('%1')}; %4 = {copied('%2')}; subtract(%3, %4) }}",
    )


def test_what_is_bound_by_let_says_where_it_is():
    text = f"{ABCD} {{ let %l = add(%a, %b); let %r = add(%c, %d); %0 = {on_cpu('%l')}; subtract(%0, %r) }}"
    check(
        text,
        f"def @main({params('abcd', 'ccgg')}, {GV}) {{ let %l = on_device(add(%a, %b), {CV}, "
        f"constrain_result=True); "
        f"let %r = on_device(add(%c, %d), {GV}, constrain_result=True); %0 = {copied('%l')}; "
        f"subtract(%0, %r) }}",
    )


def test_an_annotated_result_of_a_function_holds_for_its_calls():
    text = (
        f"{ABCD} {{ let %f = fn ({params('xy')}) {{ %0 = add(%x, %y); {on_cpu('%0')} }}; %1 = %f(%a, %b); "
        "%2 = add(%c, %d); subtract(%1, %2) }"
    )
    check(
        text,
        f"def @main({params('abcd', 'cccc')}, {CV}) {{ let %f = fn ({params('xy', 'cc')}, {CV}) {{ "
        f"add(%x, %y) }}; "
        "%0 = %f(%a, %b); %1 = add(%c, %d); subtract(%0, %1) }",
    )


def test_an_annotated_call_moves_the_function_with_it():
    text = (
        f"{ABCD} {{ let %f = fn ({params('xy')}) {{ add(%x, %y) }}; %0 = %f(%a, %b); %1 = {on_cpu('%0')}; "
        "%2 = add(%c, %d); subtract(%1, %2) }"
    )
    check(
        text,
        f"def @main({params('abcd', 'ccgg')}, {GV}) {{ let %f = fn ({params('xy', 'cc')}, {CV}) {{ "
        f"add(%x, %y) }}; "
        f"%1 = %f(%a, %b); %2 = {on_cpu('%1', True)}; %3 = {copied('%2')}; %4 = add(%c, %d); "
        f"subtract(%3, %4) }}",
    )


def test_functions_of_functions_have_the_device_of_their_last_result():
    kind = f"fn ({T}) -> {T}"
    text = (
        f"def @main({params('xy')}) {{ let %f = fn (%g: {kind}) {{ fn ({params('a')}) {{ %0 = "
        f"{on_cpu('%a')}; %1 = %g(%0); "
        f"add(%1, %x) }} }}; let %h = fn ({params('b')}) {{ negative(%b) }}; %2 = %f(%h); %3 = %2(%y); "
        f"subtract(%x, %3) }}"
    )
    check(
        text,
        f"def @main({params('xy', 'gc')}, {GV}) {{ let %f = fn (%g {{{GV}}}: {kind}, {GV}) {{ "
        f"fn ({params('a', 'c')}, {GV}) {{ %0 = {copied('%a')}; %1 = %g(%0); add(%1, %x) }} }}; "
        f"let %h = fn ({params('b', 'g')}, {GV}) {{ negative(%b) }}; %2 = %f(%h); %3 = %2(%y); "
        f"subtract(%x, %3) }}",
    )


def test_a_tuple_is_where_its_fields_are_functions_too():
    text = (
        f"def @main({params('xy')}) {{ let %f = fn ({params('ab')}) {{ %0 = {on_cpu('%b')}; add(%a, %0) }}; "
        "let %t = (%f, %x); %1 = %t.1; %2 = %t.0; %2(%1, %y) }"
    )
    check(
        text,
        f"def @main({params('xy', 'cc')}, {CV}) {{ let %f = fn ({params('ab', 'cc')}, {CV}) {{ add(%a, %b) }}; "
        f"let %t = on_device((%f, %x), {CV}, constrain_result=True); %1 = %t.1; %2 = %t.0; %2(%1, %y) }}",
    )


def test_an_annotation_below_a_projection_is_around_it():
    cube = "Tensor[(3, 3, 4), float32]"
    text = (
        f"def @main(%x: {cube}) {{ let %t = split(%x, indices_or_sections=3); %0 = {on_cpu('%t')}; "
        f"%1 = {on_cpu('%t')}; "
        "%2 = %0.0; %3 = %1.1; subtract(%2, %3) }"
    )
    check(
        text,
        f"def @main(%x {{{CV}}}: {cube}, {GV}) {{ "
        f"let %t = on_device(split(%x, indices_or_sections=3), {CV}, constrain_result=True); "
        f"%0 = %t.0; %1 = {on_cpu('%0', True)}; %2 = {copied('%1')}; %3 = %t.1; %4 = {on_cpu('%3', True)}; "
        f"%5 = {copied('%4')}; subtract(%2, %5) }}",
    )


def test_the_last_annotation_decides_where_the_result_is():
    text = (
        f"def @main({params('xyz')}) {{ %0 = add(%x, %y); %1 = on_device(%0, {GV}); %2 = subtract(%1, %z); "
        f"{on_cpu('%2')} }}"
    )
    check(
        text,
        f"def @main({params('xyz', 'ggc')}, {CV}) {{ %0 = add(%x, %y); "
        f"%1 = on_device(%0, {GV}, constrain_result=True); "
        f"%2 = {copied('%1', G, C)}; subtract(%2, %z) }}",
    )


def test_a_decision_is_on_the_host():
    text = f"def @main(%p: bool, {params('y')}) {{ if (%p) {{ abs(%y) }} else {{ negative(%y) }} }}"
    host = "meta[VirtualDevice][2]"
    check(
        text,
        f"def @main(%p {{virtual_device={host}}}: bool, {params('y', 'g')}, {GV}) "
        "{ if (%p) { abs(%y) } else { negative(%y) } }",
        (CPU, GPU, HOST),
    )


def test_a_shape_is_on_the_host_wherever_the_tensor_is():
    text = (
        f"def @main(%x: Tensor[(?, ?), float32]) {{ %0 = on_device(%x, {GV}, constrain_result=True); "
        f'shape_of(%0, dtype="int64") }}'
    )
    host = "meta[VirtualDevice][2]"
    check(
        text,
        f'def @main(%x {{{GV}}}: Tensor[(?, ?), float32], virtual_device={host}) {{ shape_of(%x, dtype="int64") }}',
        (CPU, GPU, HOST),
    )


def test_global_functions_are_planned_with_their_callers():
    text = (
        f"def @f({params('a')}) -> {T} {{ abs(%a) }}\n"
        f"def @main({params('b')}) -> {T} {{ %0 = {on_cpu('%b')}; %1 = @f(%0); {on_cpu('%1')} }}"
    )
    check(
        text,
        f"def @f({params('a', 'g')}, {GV}) -> {T} {{ abs(%a) }}\n".replace(G, C)
        + f"def @main({params('b', 'c')}, {CV}) -> {T} {{ @f(%b) }}",
    )


def test_primitive_functions_are_one_operation():
    x, y = var("x", shape=(5, 7)), var("y", shape=(5, 7))
    inner = var("p", shape=(5, 7))
    primitive = Function([inner], ops.abs(ops.exp(inner))).with_attr("Primitive", 1)
    call = annotation.on_device(Call(primitive, [x]), Device("cpu"))
    mod = PlanDevices(CONFIG)(InferType()(IRModule.from_expr(Function([x, y], ops.add(call, y)))))
    main = mod["main"]
    assert [p.virtual_device_ for p in main.params] == [CPU, GPU]
    assert main.body.args[0].op.name == "device_copy"
    assert "virtual_device" not in main.body.args[0].args[0].args[0].op.attrs


def test_a_constant_that_two_devices_use_is_copied():
    x, c = var("x", shape=(2,)), const([1.0, 2.0], "float32")
    left = annotation.on_device(ops.add(x, c), Device("cpu"))
    product = annotation.on_device(ops.multiply(left, c), Device("cuda"))
    mod = PlanDevices(CONFIG)(IRModule.from_expr(Function([x], product)))
    copies = [n for n in post_order(mod["main"]) if isinstance(n, Call) and getattr(n.op, "name", "") == "device_copy"]
    assert len(copies) == 2


def test_a_memory_scope_is_part_of_the_device():
    scope = VirtualDevice(Device("cpu"), CPU.target, "scopeA")
    text = f"def @main({params('a')}) {{ %0 = {on_cpu('%a')}; abs(%0) }}"
    check(text, f"def @main({params('a', 'c')}, {GV}) {{ %0 = {copied('%a')}; abs(%0) }}", (scope, GPU))


def test_a_value_in_two_places_is_refused():
    x = var("x", shape=(2,))
    there = annotation.on_device(x, Device("cpu"), constrain_result=True)
    both = ops.add(there, annotation.on_device(x, Device("cuda"), constrain_result=True))
    with pytest.raises(UserError, match="Incompatible virtual devices"):
        PlanDevices(CONFIG)(IRModule.from_expr(Function([x], both)))


def test_a_device_without_a_target_is_refused():
    x = var("x", shape=(2,))
    with pytest.raises(UserError, match="no target is given for devices of type 4"):
        PlanDevices(CONFIG)(IRModule.from_expr(Function([x], annotation.on_device(x, Device("opencl")))))


def test_builders_take_devices_by_name_and_refuse_others():
    x = var("x", shape=(2,))
    assert annotation.on_device(x, "gpu").attrs.virtual_device.device_type == 2
    assert device_copy(x, "cpu", "cuda").attrs.dst_virtual_device == VirtualDevice(Device("cuda"))
    with pytest.raises(UserError, match="expecting a Device or device name, but received a int"):
        annotation.on_device(x, 3)
    func = annotation.function_on_device(Function([x], ops.abs(x)), ["cpu"], "cuda")
    assert func.params[0].virtual_device_.device_type == 1 and func.virtual_device_.device_type == 2
    assert analysis.free_vars(func) == []
    assert not structural_equal(annotation.on_device(x, "cpu"), annotation.on_device(x, "cuda"))


def test_virtual_devices_join_where_they_do_not_contradict():
    cpu, open_target = VirtualDevice(Device("cpu")), VirtualDevice(Device("cpu"), None, "scope")
    assert cpu.joined(CPU) == CPU and CPU.joined(GPU) is None
    assert CPU.joined(open_target) == VirtualDevice(Device("cpu"), CPU.target, "scope")
    assert VirtualDevice().is_fully_unconstrained and not CPU.is_fully_constrained
    with pytest.raises(UserError, match="target cuda is for devices of type 2"):
        VirtualDevice(Device("cpu"), Target("cuda"))


def test_a_chain_of_many_calls_is_planned_without_recursion():
    expr = x = var("x", shape=(2,))
    for _ in range(20_000):
        expr = ops.abs(expr)
    mod = PlanDevices(CONFIG)(IRModule.from_expr(Function([x], annotation.on_device(expr, Device("cpu")))))
    assert mod["main"].virtual_device_ == CPU


def test_what_is_planned_can_be_fused():
    text = f"{ABCD} {{ %0 = add(%a, %b); %1 = {on_cpu('%0')}; %2 = add(%c, %d); subtract(%1, %2) }}"
    fused = FuseOps(2)(PlanDevices(CONFIG)(module(text)))
    assert fused["main"].virtual_device_ == GPU


def test_what_runs_on_one_device_needs_no_annotations():
    text = f"{ABCD} {{ %0 = add(%a, %b); %1 = {on_cpu('%0')}; %2 = add(%c, %d); subtract(%1, %2) }}"
    bare = RemoveDeviceAnnotations()(PlanDevices(CONFIG)(module(text)))
    assert_structural_equal(bare, module(f"{ABCD} {{ %0 = add(%a, %b); %1 = add(%c, %d); subtract(%0, %1) }}"), True)


def test_a_planned_module_is_read_back_from_its_text():
    text = f"{ABCD} {{ let %l = add(%a, %b); %0 = {on_cpu('%l')}; %1 = add(%c, %d); subtract(%0, %1) }}"
    planned = PlanDevices(CONFIG)(module(text))
    printed = planned.astext()
    assert "%a {virtual_device=meta[VirtualDevice][0]}: Tensor[(5, 7), float32]" in printed
    again = parse(printed)
    assert_structural_equal(again, planned)
    assert places(again) == places(planned)
    assert again.astext() == printed


def test_the_device_of_every_expression_is_recovered_from_a_planned_function():
    text = f"{ABCD} {{ let %l = add(%a, %b); %0 = {on_cpu('%l')}; %1 = add(%c, %d); subtract(%0, %1) }}"
    planned = PlanDevices(CONFIG)(module(text))
    main = planned["main"]
    found = get_global_func("relay.transform.RecoverVirtualDeviceMap")(planned, main)
    outer = main.body
    difference = outer.body
    assert [found[p] for p in main.params] == [CPU, CPU, GPU, GPU]
    assert found[main] == found[outer] == found[difference] == found[difference.args[1]] == GPU
    assert found[outer.variable] == found[outer.value] == found[outer.value.args[0]] == CPU
    assert found[difference.args[0]] == GPU and found[difference.args[0].args[0]] == CPU  # the copy, and what it copies
