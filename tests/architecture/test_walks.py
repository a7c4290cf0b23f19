"""Passes are rules over one driver (``relay/traverse.py``); those with a loop of their own say why."""

import ast
import importlib

from tools.health.walks import MAKERS, has_own_loop, makers_among, own_loops

MOST_LOOPS = 5  # was 27; write the new number here when there are fewer


def test_no_pass_with_a_loop_of_its_own_is_added() -> None:
    found = own_loops()
    assert len(found) <= MOST_LOOPS, f"write it as a transform of traverse.rewrite: {found}"
    assert len(found) == MOST_LOOPS, f"there are {len(found)} loops now: lower MOST_LOOPS"


def test_each_pass_with_a_loop_of_its_own_says_why() -> None:
    shown = {name: " ".join((importlib.import_module(name).__doc__ or "").split()) for name, _ in own_loops()}
    assert [name for name, text in shown.items() if "a loop of its own, since" not in text] == []


def functions(text: str) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]


def loops(text: str) -> list[str]:
    found = functions(text)
    makers = makers_among(found)
    assert makers >= MAKERS
    return [function.name for function in found if has_own_loop(function, makers)]


def test_the_scanner_finds_what_is_made_in_a_loop_and_by_functions_that_it_calls() -> None:
    direct = "def run(root):\n    for n in post_order(root):\n        memo[n] = rebuild(n, inner)"
    assert loops(direct) == ["run"]
    called = "def made(n):\n    return Call(n)\ndef run(root):\n    order = list(post_order(root))\n"
    assert loops(called + "    for n in reversed(order):\n        memo[n] = made(n)") == ["run"]


def test_the_scanner_lets_analyses_be() -> None:
    assert loops("def uses(root):\n    for n in post_order(root):\n        count[n] += 1") == []
