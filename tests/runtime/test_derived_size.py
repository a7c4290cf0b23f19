"""Sizes that follow from named ones: one canonical name for what is computed alike, and its value."""

import pickle

import hypothesis.strategies as st
import pytest
from hypothesis import given

from byoc.runtime.core.bound_sizes import Sizes, is_computable
from byoc.runtime.core.derived_size import (
    broadcast,
    extreme,
    is_derived,
    is_never_negative,
    name_of,
    names_in,
    polynomial,
    quotient,
    truncated,
    windowed,
)
from byoc.runtime.core.errors import ArtifactError, InputError
from byoc.runtime.core.size_forms import exact_quotient, folded, unguarded_name

BASES = {"N": 7, "seq-len": 5, "past_1": 0, 'a "quoted" one': 3, "min": 11}


def binary(inner):
    """Expressions as pairs: the polynomial, and the number that Python computes."""
    return st.one_of(
        st.tuples(st.sampled_from("+-*"), inner, inner).map(_arithmetic),
        st.tuples(inner, st.integers(1, 9)).map(lambda p: (quotient(p[0][0], p[1]), p[0][1] // p[1])),
        st.tuples(inner, st.integers(1, 9)).map(lambda p: (truncated(p[0][0], p[1]), int(p[0][1] / p[1]))),
        st.tuples(inner.filter(_is_size), inner.filter(_is_size)).map(_broadcast),
        st.tuples(st.sampled_from(("min", "max")), inner, inner).map(
            lambda p: (extreme(p[0], p[1][0], p[2][0]), {"min": min, "max": max}[p[0]](p[1][1], p[2][1]))
        ),
    )


def _arithmetic(parts):
    kind, (a, x), (b, y) = parts
    return {"+": (a + b, x + y), "-": (a + -b, x - y), "*": (a * b, x * y)}[kind]


def _is_size(one):
    return one[1] >= 0


def _broadcast(parts):
    (a, x), (b, y) = parts
    return broadcast(a, b), max(x, y) if (x and y) or max(x, y) != 1 else 0


LEAVES = st.one_of(
    st.sampled_from(list(BASES)).map(lambda n: (polynomial(n), BASES[n])),
    st.integers(-20, 20).map(lambda n: (polynomial(n), n)),
)
EXPRESSIONS = st.recursive(LEAVES, binary, max_leaves=8)


@given(EXPRESSIONS)
def test_the_name_says_the_value_and_reads_back_to_itself(expression):
    size, value = expression
    if size.number is not None:
        assert size.number == value
        return
    name = name_of(size)
    assert name_of(polynomial(name)) == name and (is_derived(name) or name in BASES)
    assert names_in(name) <= set(BASES) and is_computable(name, BASES)
    sizes = Sizes(BASES)
    if value < 0:
        with pytest.raises(InputError, match="inputs are too small"):
            sizes[name]
    else:
        assert sizes[name] == value
        assert sizes == BASES and Sizes(BASES) == sizes  # what was computed is not bound


@given(EXPRESSIONS)
def test_what_is_never_negative_is_not(expression):
    size, value = expression
    assert value >= 0 or not is_never_negative(size)


def test_a_minimum_of_what_may_be_negative_may_be_negative():
    s = polynomial("S")
    less = s + polynomial(-1)
    assert is_never_negative(s * s + polynomial(2)) and not is_never_negative(less)
    assert not is_never_negative(extreme("min", polynomial(512), less))  # it once was taken for a size
    assert is_never_negative(extreme("max", polynomial(0), less))
    assert not is_never_negative(quotient(extreme("min", polynomial(8), less), 2))


@given(EXPRESSIONS, EXPRESSIONS, EXPRESSIONS, st.integers(1, 6))
def test_what_is_equal_by_the_laws_has_one_name(one, two, three, number):
    (a, _), (b, _), (c, _) = one, two, three
    pairs = [
        ((a + b) * c, c * b + a * c),
        (a + b + -b, a),
        (quotient(a * polynomial(number), number), a),
        (quotient(a * polynomial(number) + b, number), a + quotient(b, number)),
        (quotient(a + polynomial(number), number), quotient(a, number) + polynomial(1)),
        (extreme("min", a, b), extreme("min", b, a)),
        (extreme("max", a, a + polynomial(number)), a + polynomial(number)),
        (windowed(windowed(a)), windowed(a)),
    ]
    assert [str(x) for x, _ in pairs] == [str(y) for _, y in pairs]


def test_names_that_people_see():
    n, s = polynomial("N"), polynomial("S")
    assert name_of(n * polynomial(4)) == "(4*N)" and name_of(s + polynomial(-1)) == "(S-1)"
    assert name_of(extreme("min", s, polynomial(512))) == "(min(512,S))"
    assert extreme("max", s, extreme("min", s, polynomial(512))) is s  # a table of 512 rows, cut to S, beside S
    assert str(extreme("max", extreme("max", n, s), n)) == "max(N,S)"
    assert name_of(quotient(n + polynomial(-1), 2) + polynomial(1)) == "(div(N+1,2))"  # a window of 3, padded by 1
    assert name_of(quotient(n * polynomial(128), 32)) == "(4*N)" and name_of(s) == "S"


def test_names_of_sizes_that_are_broadcast_together():
    n, s, one = polynomial("N"), polynomial("S"), polynomial(1)
    assert name_of(broadcast(broadcast(n, s), n)) == "(broadcast(N,S))" and broadcast(n, one) is n
    assert [Sizes({"N": 1, "S": s})["(broadcast(N,S))"] for s in (0, 1, 5)] == [0, 1, 5]
    assert broadcast(s, extreme("min", s, polynomial(512))) is s  # a table of 512 rows, cut to S, beside S
    assert broadcast(s, extreme("max", s, one)) is s and broadcast(extreme("min", s, one), s) is s
    assert name_of(broadcast(n + one, s + one)) == "(max(N+1,S+1))"


def test_a_window_that_does_not_fit_refuses_the_inputs():
    name = name_of(windowed(polynomial("H") + polynomial(-2)))
    assert name == "(window(H-2))" and Sizes({"H": 3})[name] == 1
    with pytest.raises(InputError, match=r"leaves nothing of an axis, \(H-2\) is 0 for H=2: give larger inputs"):
        Sizes({"H": 2})[name]


def test_sizes_bind_what_is_not_given_and_compute_what_is():
    sizes = Sizes()
    assert sizes.bind("(N*N)", 16) == 16 and not sizes.determines("(8*N)")
    assert sizes.bind("N", 3) == 3 and sizes.bind("(2*N)", 5) == 6  # which is what an input is held to
    assert (
        sizes.determines("(8*N)") and sizes["(8*N)"] == 24 and not sizes.determines("M") and not sizes.determines(None)
    )
    with pytest.raises(KeyError):
        sizes["M"]


def test_a_size_that_follows_from_one_other_determines_it():
    sizes = Sizes()
    assert sizes.bind("(4*N+P)", 20) == 20 and not sizes.determines("N")
    assert sizes.bind("(2*P)", 8) == 8 and sizes["P"] == 4 and sizes.bind("(4*N+P)", 9) == 20
    assert sizes.bind("(3*M-1)", 8) == 8 and sizes["M"] == 3 and sizes["(div(M+1,2))"] == 2
    assert is_computable("N", ["(4*N+P)", "(2*P)"]) and is_computable("(N*P)", ["(4*N+P)", "P"])
    assert not any(is_computable("N", [known]) for known in ("(N*N)", "(div(N,2)+N)", "(N+P)"))
    with pytest.raises(InputError, match=r"a dimension that is \(2\*K\) cannot have the size 7"):
        sizes.bind("(2*K)", 7)


@pytest.mark.parametrize("text", ["(", "()", "(4*)", "(N", "(4**N)", "(div(N,0))", "(div(N,M))", "(min(N))", "(N N)"])
def test_a_text_that_nobody_wrote_is_refused(text):
    if not is_derived(text):
        assert name_of(polynomial(text)) == text  # a plain name, however odd
        return
    with pytest.raises(ArtifactError, match="is no size"):
        polynomial(text)
    with pytest.raises(ArtifactError, match="letters"):
        polynomial(f"({'N+' * 5000}1)")


def test_a_size_travels():
    assert pickle.loads(pickle.dumps(Sizes({"N": 2})))["(3*N)"] == 6


@given(EXPRESSIONS)
def test_a_folded_size_is_the_same_number(expression):
    size, value = expression
    found = folded(size)
    name = name_of(found + polynomial(10**9))  # a size, whatever the sign of the value
    assert (found.number if found.number is not None else Sizes(BASES)[name] - 10**9) == value


@given(EXPRESSIONS, st.sampled_from([n for n in BASES if BASES[n]]), st.integers(1, 5))
def test_a_product_is_divided_by_what_stands_in_it(expression, name, count):
    size, _ = expression
    divisor = polynomial(name) * polynomial(count)
    assert str(exact_quotient(size * divisor, divisor)) == str(size)
    found = exact_quotient(size, divisor)
    assert found is None or str(found * divisor) == str(size)


def test_a_quotient_of_a_quotient_is_one():
    s = polynomial("S")
    assert str(quotient(quotient(s, 5), 2)) == "div(S,10)"
    assert str(quotient(quotient(s, 80) + polynomial(-3), 2)) == "div(S+80,160)-2"


def test_an_extreme_taken_off_is_the_other_extreme():
    s, one = polynomial("S"), polynomial(1)
    assert name_of(folded(one + -extreme("max", one + -s, polynomial(0)))) == "(min(1,S))"
    assert name_of(folded(extreme("min", s + -one, polynomial(0)) + one)) == "(min(1,S))"
    assert name_of(folded(s + extreme("min", s, polynomial(4)))) == "(S+min(4,S))"


def test_both_parts_of_a_size_are_the_whole():
    """As rolling has them: the last two, and what is before these."""
    s, two = polynomial("S"), polynomial(2)
    assert folded(extreme("min", s, two) + extreme("max", s + -two, polynomial(0))).terms == s.terms
    assert name_of(folded(extreme("min", s, two) + extreme("max", s + -two, polynomial(1)))) != "S"


@pytest.mark.parametrize(
    "text, is_size",
    [
        ("(H-2*div(H,2))", True),
        ("(4-H+4*div(H,4))", True),
        ("(3-H+4*div(H,4))", True),
        ("(2-H+4*div(H,4))", False),
        ("(H*W-2*W*div(H,2))", True),
        ("(H-div(3*H,4))", True),
        ("(H-4*div(H+1,4))", False),
        ("(div(H,2)-1)", False),
    ],
)
def test_what_a_division_leaves_is_never_negative(text, is_size):
    assert is_never_negative(polynomial(text)) == is_size
    least = min(_number(text, h, w) for h in range(24) for w in range(3))
    assert (least >= 0) == is_size


def _number(text, h, w):
    return eval(text, {"div": lambda a, b: a // b, "H": h, "W": w})


@pytest.mark.parametrize(
    "one, two",
    [
        ("(window(div(window(div(S,5)-1)-3,2)+1))", "(trunc(div(S,5)-4,2)+1)"),
        ("(max(0,trunc(S-3,2)+1))", "(window(div(S-3,2)+1))"),
        ("(4*window(H-2))", "(4*H-8)"),
    ],
)
def test_names_of_one_size_wherever_its_inputs_are_not_refused(one, two):
    assert unguarded_name(name_of(polynomial(one))) == unguarded_name(name_of(polynomial(two)))
    for size in range(40):
        try:
            want = Sizes({"S": size, "H": size})[name_of(polynomial(one))]
        except InputError:
            continue
        if "window" in one:
            assert Sizes({"S": size, "H": size})[name_of(polynomial(two))] == want


def test_names_of_different_sizes_stay_different():
    names = ["(window(H-2))", "(H-1)", "(max(1,H))", "(window(div(H,2)))", "(max(0,H-3))", "(min(0,H-2))"]
    assert len({unguarded_name(name) for name in names}) == len(names)


def test_what_a_function_of_an_unknown_name_is_determines_sizes_that_are_made_of_it():
    """A part of a model is given tensors whose sizes follow from the model's, without those themselves."""
    half, third = quotient(polynomial("H"), 2), quotient(polynomial("W") + polynomial(1), 3)
    one, two, area = (name_of(size) for size in (half + half + polynomial(1), third, half * third))
    nested = name_of(quotient(half + polynomial(5), 4))
    sizes = Sizes()
    assert sizes.bind(one, 9) == 9 and sizes.bind(two, 5) == 5
    assert is_computable(area, [one, two]) and sizes.determines(area) and sizes[area] == 4 * 5
    assert is_computable(nested, [one]) and sizes[nested] == 2
    assert not is_computable("H", [one, two]) and not is_computable(area, [one]) and not sizes.determines("H")
    with pytest.raises(InputError, match="cannot have the size 8"):
        Sizes({one: 8})[area]
