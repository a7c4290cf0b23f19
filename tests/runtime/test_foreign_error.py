"""What a vendor's code raises becomes a part of one sentence, whatever its text holds."""

import pytest

from byoc.errors import in_one_line
from byoc.runtime.core.errors import MOST_LETTERS, UserError, foreign_text
from byoc.runtime.modules.module import Module, saved_members


class TextlessError(Exception):
    def __str__(self):
        raise KeyError("none")


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("one\n  two\x1b[31m\tthree"), "RuntimeError: one two [31m three"),
        (ValueError("x" * 10_000), f"ValueError: {'x' * MOST_LETTERS} ..."),
        (AssertionError(), "AssertionError, which says nothing (test_foreign_error.py:"),
        (TextlessError(), "TextlessError, whose text cannot be read (test_foreign_error.py:"),
    ],
)
def test_a_foreign_text_is_one_line(error, text):
    found = foreign_text(raised(error))
    assert found.startswith(text) and "\n" not in found and found.isprintable()
    assert in_one_line(error).startswith(text.split(" (")[0])


class ForgetfulModule(Module):
    """A class that does not call ``Module.__init__``, and whose ``save`` raises."""

    type_key = "forgetful"

    def __init__(self):
        self.symbols = ("f",)

    def save(self):
        raise TypeError("cannot pickle '_thread.lock' object")


def test_a_module_needs_no_call_of_the_base():
    module = ForgetfulModule()
    assert module.imports == () and list(module.walk()) == [module]
    module.import_module(ForgetfulModule())
    assert len(module.imports) == 1 and ForgetfulModule().imports == ()


def test_a_save_that_raises_is_a_sentence():
    with pytest.raises(UserError, match="cannot be saved: its save raised TypeError: cannot pickle"):
        saved_members(ForgetfulModule())
