"""Findings of one cause are one line: what differs from case to case in a sentence counts for nothing."""

from types import SimpleNamespace

import pytest

import byoc
from byoc import relay
from byoc.errors import CompileError
from byoc.kernels import KERNELS, CSource, kernel
from byoc.testing.causes import by_cause, cause_of
from byoc.testing.checks import LATE, WRONG, Finding


@pytest.mark.needs_cc
def test_a_mistake_in_c_is_one_cause_in_sources_of_other_sizes():
    wrong = "void KERNEL(const IN0_TYPE *x, OUT0_TYPE *out SIZES) { out[0] = x[0] }"
    found = []
    with KERNELS.temporary():
        kernel("nn.relu", "arm/float/any")(CSource(wrong))
        for size in (2, 3):
            x = relay.var("x", shape=(size,))
            with pytest.raises(CompileError) as raised:
                byoc.compile(byoc.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))), ["arm", "c"])
            case = SimpleNamespace(name=f"nn.relu[{size}]", operator="nn.relu")
            found.append((case, Finding("compile", LATE, str(raised.value))))
    assert found[0][1].text != found[1][1].text  # the sources have names of their own
    assert len(by_cause(found)) == 1


def test_other_words_and_other_numbers_of_wrong_results_are_other_causes():
    case = SimpleNamespace(name="exp[0]", operator="exp")

    def cause(verdict, text):
        return cause_of(case, Finding("compile", verdict, text))

    assert cause(LATE, "line 3: expected ';'") == cause(LATE, "line 4: expected ';'")
    assert cause(LATE, "line 3: expected ';'") != cause(LATE, "line 3: expected ')'")
    assert cause(LATE, "region (operators exp) failed") == cause(LATE, "region (operators exp, tanh) failed")
    assert cause(WRONG, "got 3") != cause(WRONG, "got 4")
