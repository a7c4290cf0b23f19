"""Sub-graphs cut out by the indexes of their nodes, text in and text out: ``relay.collage.PartitionForTesting``."""

import pytest

from byoc.errors import UserError
from byoc.ir.registry import get_global_func
from byoc.relay import assert_structural_equal, fromtext
from byoc.relay.transform import CapturePostDfsIndexInSpans, InferType

T = "Tensor[(5, 7), float32]"
F = f'Compiler="foo") -> {T}'


def module(text):
    return InferType()(fromtext(f'#[version = "0.0.5"]\n{text}'))


def check(text, expected, indexes, max_exits=1, allow_taps=False):
    """The nodes at *indexes* (label to indexes) of *text* become a function of the compiler foo."""
    flat = [(index, label) for label, some in indexes.items() for index in some]
    partition = get_global_func("relay.collage.PartitionForTesting")
    run = partition(max_exits, allow_taps, "foo", [i for i, _ in flat], [label for _, label in flat])
    actual = run(CapturePostDfsIndexInSpans()(module(text)))
    assert_structural_equal(actual, module(expected), map_free_vars=True)


SUM = f"def @main(%a: {T}, %b: {T}, %c: {T}, %d: {T})"
# parameters are 0 to 3, subtract is 4, add 5, the calls 6, 7 and 8
TWO_SUMS = f"{SUM} {{ %0 = add(%a, %b); %1 = add(%c, %d); subtract(%0, %1) }}"


def test_one_call_is_a_function_of_its_arguments():
    expected = (
        f"{SUM} {{ %0 = add(%a, %b); %1 = (fn (%x: {T}, %y: {T}, {F} {{ add(%x, %y) }})(%c, %d); subtract(%0, %1) }}"
    )
    check(TWO_SUMS, expected, {"": [7]})


def test_several_exits_are_a_tuple_where_they_are_allowed():
    pair = (
        f'(fn (%w: {T}, %x: {T}, %y: {T}, %z: {T}, Compiler="foo") -> ({T}, {T}) '
        "{ %0 = add(%y, %z); %1 = add(%w, %x); (%0, %1) })(%c, %d, %a, %b)"
    )  # the last exit is met first
    expected = f"{SUM} {{ %2 = {pair}; %3 = %2.0; %4 = %2.1; subtract(%3, %4) }}"
    check(TWO_SUMS, expected, {"": [6, 7]}, max_exits=2)
    check(TWO_SUMS, TWO_SUMS, {"": [6, 7]}, max_exits=1)


CHAIN = f"def @main(%a: {T}) {{ %0 = abs(%a); %1 = nn.relu(%0); %2 = abs(%1); add(%2, %1) }}"
# %a 0, add 1, abs 2, nn.relu 3 before the call of abs: calls are 4 abs, 5 relu, 6 abs, 7 add


def test_a_chain_is_one_function():
    check(
        CHAIN,
        f"def @main(%a: {T}) {{ (fn (%x: {T}, {F} {{ %0 = abs(%x); %1 = nn.relu(%0); %2 = abs(%1); "
        "add(%2, %1) })(%a) }",
        {"": [4, 5, 6, 7]},
    )


def test_a_tap_is_refused_unless_it_is_allowed():
    tapped = (
        f'def @main(%a: {T}) {{ %3 = (fn (%x: {T}, Compiler="foo") -> ({T}, {T}) '
        "{ %0 = abs(%x); %1 = nn.relu(%0); %2 = abs(%1); (%1, %2) })(%a); %4 = %3.1; %5 = %3.0; add(%4, %5) }"
    )
    check(CHAIN, tapped, {"": [4, 5, 6]}, max_exits=2, allow_taps=True)
    check(CHAIN, CHAIN, {"": [4, 5, 6]}, max_exits=2)
    check(CHAIN, CHAIN, {"": [4, 5, 6]}, max_exits=1, allow_taps=True)


def test_a_sub_graph_that_would_wait_for_itself_is_refused():
    check(CHAIN, CHAIN, {"": [5, 7]}, max_exits=2, allow_taps=True)


def test_labels_are_composites_within_the_function():
    inner = (
        f'%0 = (fn (%y: {T}, Composite="low") -> {T} {{ %9 = abs(%y); nn.relu(%9) }})(%x); '
        f'(fn (%z: {T}, Composite="high") -> {T} {{ %8 = abs(%z); add(%8, %z) }})(%0)'
    )
    expected = f"def @main(%a: {T}) {{ (fn (%x: {T}, {F} {{ {inner} }})(%a) }}"
    check(CHAIN, expected, {"low": [4, 5], "high": [6, 7]})


def test_nodes_without_a_label_stand_beside_composites():
    inner = (
        f'%0 = abs(%x); %1 = (fn (%y: {T}, Composite="act") -> {T} {{ nn.relu(%y) }})(%0); %2 = abs(%1); add(%2, %1)'
    )
    expected = f"def @main(%a: {T}) {{ (fn (%x: {T}, {F} {{ {inner} }})(%a) }}"
    check(CHAIN, expected, {"act": [5], "": [4, 6, 7]})


def test_tuples_within_tuples_may_be_inside():
    text = f"def @main(%a: {T}, %b: {T}) {{ %0 = ((%a, %b), %a); %1 = %0.0; %2 = %1.1; abs(%2) }}"
    # %a 0, %b 1, abs 2, the inner tuple 3, the outer 4, projections 5 and 6, abs 7
    expected = (
        f"def @main(%a: {T}, %b: {T}) {{ (fn (%x: {T}, %y: {T}, {F} "
        "{ %0 = ((%x, %y), %x); %1 = %0.0; %2 = %1.1; abs(%2) })(%a, %b) }"
    )
    check(text, expected, {"": [3, 4, 5, 6, 7]})


def test_scalar_constants_go_along_and_arrays_do_not():
    text = f"def @main(%a: {T}) {{ add(%a, 1f) }}"
    check(text, f"def @main(%a: {T}) {{ (fn (%x: {T}, {F} {{ add(%x, 1f) }})(%a) }}", {"": [3]})


def test_nodes_of_different_branches_are_not_one_function():
    text = f"def @main(%p: bool, %a: {T}) {{ if (%p) {{ abs(%a) }} else {{ nn.relu(%a) }} }}"
    # %p 0, abs 1, %a, the call; relu and its call: whatever the order, the two calls are in different blocks
    mod = CapturePostDfsIndexInSpans()(module(text))
    branch = mod["main"].body
    calls = [branch.true_branch.span.line, branch.false_branch.span.line]
    check(text, text, {"": calls}, max_exits=2, allow_taps=True)
    expected = text.replace("abs(%a)", f"(fn (%x: {T}, {F} {{ abs(%x) }})(%a)")
    check(text, expected, {"": calls[:1]})


def test_spans_hold_the_index_and_that_of_the_dominator():
    mod = CapturePostDfsIndexInSpans()(module(CHAIN))
    body = mod["main"].body
    assert (body.span.source_name.name, body.span.line, body.span.column) == ("index", 7, 8)
    relu = body.args[1]
    assert (relu.span.line, relu.span.column) == (5, 7)
    assert mod["main"].params[0].span.line == 0


def test_an_index_that_is_not_there_is_refused():
    with pytest.raises(UserError, match="nodes 0 to 8"):
        check(CHAIN, CHAIN, {"": [9]})
