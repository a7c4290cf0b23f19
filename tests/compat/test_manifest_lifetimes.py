"""ManifestLifetimes: text in, text out."""

from __future__ import annotations

import pytest

LIST = "type List[A] { Cons(A, List[A]), Nil, }\n"


@pytest.fixture
def check(tvm, relay):
    """Holds the pass to what it makes of a text."""

    def compare(before, after):
        parse = tvm.relay.parse
        found = relay.transform.ManifestLifetimes()(parse(f'#[version = "0.0.5"]\n{before}'))
        wanted = parse(f'#[version = "0.0.5"]\n{after}')
        tvm.ir.assert_structural_equal(found, wanted, map_free_vars=True)

    return compare


def test_a_variable_is_killed_behind_its_last_use(check):
    check(
        "def @main(%x: int) { let %y = %x + %x; let %z = %y + %y; let %w = %z + %z; %w }",
        """def @main(%x: int) {
          let %y = %x + %x;
          let %_0 = memory.kill(%x);
          let %z = %y + %y;
          let %_1 = memory.kill(%y);
          let %w = %z + %z;
          let %_2 = memory.kill(%z);
          %w
        }""",
    )


def test_what_a_branch_alone_reads_dies_in_it_and_the_condition_behind_both(check):
    check(
        """def @main(%x: int) {
          let %y = cast(%x, dtype="bool");
          let %z = if (%y) {
            let %v0 = %x + %x;
            let %v1 = %v0 * 2;
            %v1
          } else {
            %x
          };
          %z
        }""",
        """def @main(%x: int) {
          let %y = cast(%x, dtype="bool");
          let %z = if (%y) {
            let %v0 = %x + %x;
            let %_0 = memory.kill(%x);
            let %v1 = %v0 * 2;
            let %_1 = memory.kill(%v0);
            %v1
          } else {
            %x
          };
          let %_2 = memory.kill(%y);
          %z
        }""",
    )


def test_what_is_read_behind_a_branch_lives_through_it(check):
    check(
        "def @main(%x: int, %c: bool) { let %z = if (%c) { let %a = %x + 1; %a } else { %x }; let %w = %z + %x; %w }",
        """def @main(%x: int, %c: bool) {
          let %z = if (%c) { let %a = %x + 1; %a } else { %x };
          let %_0 = memory.kill(%c);
          let %w = %z + %x;
          let %_1 = memory.kill(%z);
          let %_2 = memory.kill(%x);
          %w
        }""",
    )


def test_the_parts_of_what_is_matched_die_in_their_clause(check):
    check(
        LIST
        + """def @main(%xs: List[int], %one: int) {
          let %s = match (%xs) {
            Cons(%h, %t) => { let %v = %h + %one; let %w = (%v, %t); %w },
            Nil => { let %e = (%one, %xs); %e },
          };
          %s
        }""",
        LIST
        + """def @main(%xs: List[int], %one: int) {
          let %s = match (%xs) {
            Cons(%h, %t) => {
              let %v = %h + %one;
              let %_0 = memory.kill(%h);
              let %_1 = memory.kill(%one);
              let %w = (%v, %t);
              let %_2 = memory.kill(%v);
              let %_3 = memory.kill(%t);
              %w
            },
            Nil => {
              let %e = (%one, %xs);
              let %_4 = memory.kill(%one);
              let %_5 = memory.kill(%xs);
              %e
            },
          };
          %s
        }""",
    )


def test_another_name_for_a_value_gives_way_to_the_first(check):
    check(
        "def @main(%x: int) { let %y = %x; let %z = %y + %x; let %w = %z; %w }",
        "def @main(%x: int) { let %z = %x + %x; let %_0 = memory.kill(%x); %z }",
    )


def test_a_pattern_that_binds_the_whole_value_is_another_name(check):
    check(
        LIST + "def @main(%x: List[int]) { let %y = match (%x) { %a => { let %b = (%a, %a); %b } }; %y }",
        LIST + "def @main(%x: List[int]) { "
        "let %y = match (%x) { %a => { let %b = (%x, %x); let %_ = memory.kill(%x); %b } }; %y }",
    )


def test_a_function_s_own_variables_die_in_it_and_what_it_captures_lives(check):
    check(
        """def @main(%x: int) {
          let %f = fn (%a: int) { let %b = %a + %x; let %c = %b + %x; %c };
          let %y = %f(%x);
          %y
        }""",
        """def @main(%x: int) {
          let %f = fn (%a: int) {
            let %b = %a + %x;
            let %_0 = memory.kill(%a);
            let %c = %b + %x;
            let %_1 = memory.kill(%b);
            %c
          };
          let %y = %f(%x);
          let %_2 = memory.kill(%f);
          let %_3 = memory.kill(%x);
          %y
        }""",
    )


def test_a_copy_to_the_device_where_a_value_is_is_another_name(tvm, relay):
    x, y, z = relay.var("x", shape=(2,)), relay.var("y"), relay.var("z")
    for target, count in (("cpu", 1), ("cuda", 2)):
        copy = relay.device_copy(x, "cpu", target)
        body = relay.Let(y, copy, relay.Let(z, y + y, z))
        mod = relay.transform.ManifestLifetimes()(tvm.IRModule.from_expr(relay.Function([x], body)))
        assert relay.analysis.list_op_freqs(mod)["memory.kill"] == count


def test_it_follows_the_writing_out_of_memory(tvm, relay):
    x = relay.var("x", shape=(3, 4))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(relay.exp(x))))
    written, _ = relay.vm.VMCompiler().optimize(mod, target="llvm")
    counts = relay.analysis.list_op_freqs(relay.transform.ManifestLifetimes()(written))
    assert counts["memory.kill"] >= counts["memory.alloc_storage"]


def test_an_unbound_decision_is_refused(tvm, relay):
    mod = tvm.relay.parse('#[version = "0.0.5"]\ndef @main(%c: bool, %x: int) { if (%c) { %x } else { 1 } }')
    with pytest.raises(tvm.TVMError, match="bind every if and match by a let"):
        relay.transform.ManifestLifetimes()(mod)


def test_the_virtual_machine_runs_a_program_with_kills(tvm, relay):
    import numpy as np

    mod = tvm.relay.parse(
        """#[version = "0.0.5"]
        def @main(%x: Tensor[(2), float32], %c: bool) {
          let %y = %x + %x;
          let %z = if (%c) { let %v = %y * %x; %v } else { %y };
          let %w = %z + %z;
          %w
        }"""
    )
    killed = relay.transform.ManifestLifetimes()(mod)
    for kind in ("vm", "debug"):
        run = relay.create_executor(kind, mod=killed, device=tvm.cpu(), target="llvm").evaluate()
        np.testing.assert_array_equal(run(np.array([1, 3], "float32"), np.array(True)).numpy(), [4, 36])


def test_a_chain_of_many_bindings_needs_no_recursion(tvm, relay):
    x = previous = relay.var("x", shape=(2,))
    names = [relay.var(f"v{i}") for i in range(20_000)]
    values = []
    for name in names:
        values.append((name, previous + previous))
        previous = name
    body = previous
    for name, value in reversed(values):
        body = relay.Let(name, value, body)
    mod = relay.transform.ManifestLifetimes()(tvm.IRModule.from_expr(relay.Function([x], body)))
    assert relay.analysis.list_op_freqs(mod)["memory.kill"] == 20_000
