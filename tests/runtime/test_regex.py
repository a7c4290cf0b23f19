"""RE2's regular expressions against Python's, where both mean the same, and against RE2's own rules elsewhere."""

import random
import re

import pytest

from byoc.runtime.kernels.strings.character_sets import property_ranges
from byoc.runtime.kernels.strings.regex import Regex
from byoc.runtime.kernels.strings.regex_syntax import PatternError

LEAVES = ["a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\w", r"\b", "^", "$", r"\n"]
REPEATS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?", "{1,}"]


def pattern(draw: random.Random, depth: int) -> str:
    kind = draw.random()
    if depth == 0 or kind < 0.3:
        return draw.choice(LEAVES)
    if kind < 0.5:
        return pattern(draw, depth - 1) + pattern(draw, depth - 1)
    if kind < 0.65:
        return f"(?:{pattern(draw, depth - 1)}|{pattern(draw, depth - 1)})"
    if kind < 0.9:
        return f"(?:{pattern(draw, depth - 1)}){draw.choice(REPEATS)}"
    return f"({pattern(draw, depth - 1)})"


@pytest.mark.parametrize("seed", range(4))
def test_whole_matches_and_longest_ones_are_those_of_python(seed):
    draw = random.Random(seed)
    for _ in range(300):
        written = pattern(draw, 4)
        ours, python = Regex(written), re.compile(written.replace("$", r"\Z"), re.ASCII)
        for _ in range(5):
            text = "".join(draw.choice("abc1_ \n") for _ in range(draw.randrange(7)))
            assert ours.matches(text) == bool(python.fullmatch(text)), (written, text)
            found, first = ours.find(text, 0), python.search(text)
            assert (found is None) == (first is None), (written, text)
            if found is not None and first is not None:  # Python prefers some match, RE2 is asked for the longest
                assert found[0] == first.start() and found[1] >= first.end(), (written, text)
                before, behind = found[0], len(text) - found[1]
                around = f"(?s:.{{{before}}})(?:{python.pattern})(?s:.{{{behind}}})"
                assert re.compile(around, re.ASCII).fullmatch(text), (written, text)


@pytest.mark.parametrize(
    ("written", "matching", "others"),
    [
        (r"\d+", ["42"], ["٤٢"]),  # ASCII's digits alone
        (r"\w+", ["az_9"], ["é"]),
        (r"\s", [" ", "\t", "\f"], ["\v", "\u00a0"]),
        (r"a$", ["a"], ["a\n"]),
        (r"(?m)a$\nb", ["a\nb"], ["ab"]),
        (r"(?s).", ["\n"], [""]),
        (".", ["é"], ["\n"]),
        (r"\pL\p{Nd}\PN", ["é٣x"], ["12x"]),
        (r"[[:^alpha:]\-]+", ["1-é"], ["a"]),
        (r"(?i)straße K", ["STRAßE \u212a"], ["STRASSE k"]),
        (r"(?i)[^k]", ["x"], ["K", "\u212a"]),
        (r"(?i:a)b", ["Ab"], ["AB"]),
        (r"\Qa.b|\E+", ["a.b||"], ["axb|"]),
        (r"\x41\x{1F600}\101\t", ["A\U0001f600A\t"], [""]),
        (r"[]a]+[^]]", ["]ab"], ["]]"]),
        (r"a{,2}", ["a{,2}"], ["aa"]),
        (r"(?P<x>a)(?<y>b)", ["ab"], ["a"]),
        (r"|a", ["", "a"], ["b"]),
        (r"\B", [""], ["a"]),  # which Python takes for no place before 3.14
    ],
)
def test_what_re2_says_otherwise_than_python(written, matching, others):
    assert [Regex(written).matches(text) for text in matching] == [True] * len(matching)
    assert [Regex(written).matches(text) for text in others] == [False] * len(others)


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("(a", "a ( without its )"),
        ("a)", "a ) without its ("),
        ("*a", "a repetition of nothing"),
        ("a++", "a repetition of nothing, or of a repetition"),
        ("(?=a)", "a group that RE2 does not have"),
        ("(?<=a)", "a group that RE2 does not have"),
        (r"(a)\1", "a back reference"),
        ("[a", "a [ without its ]"),
        ("[z-a]", "the range z-a"),
        (r"\Z", r"the escape \Z"),
        ("a{1001}", "a repetition beyond 0 to 1000"),
        ("[[:foo:]]", "the class [:foo:]"),
        (r"\p{Greek}", "the property 'Greek'"),
        (r"\x{110000}", "no number of a character"),
        ("(?:a{1000}){1000}", "is too large"),
        ("(" * 2000, "groups nested too deep"),
        ("\\", "no escape"),
    ],
)
def test_what_re2_does_not_take_is_refused_with_its_place(written, what):
    with pytest.raises(PatternError, match=re.escape(what)):
        Regex(written)


def test_no_pattern_takes_exponential_time():  # Python's re would go on for longer than the universe
    assert not Regex("(a+)+b").matches("a" * 20_000)
    assert Regex("(x+x+)+y").find("x" * 300, 0) is None


def test_categories_of_unicode_are_ranges():
    assert property_ranges("Zl") == ((8232, 8232),) and property_ranges("Xy") is None
    assert property_ranges("Any") == ((0, 0x10FFFF),)
