"""The table of Relay's names and behaviours is the one that the code gives."""

import pathlib
import re

import pytest

from byoc.compat.tvm.behaviours import Behaviour, behaviours
from byoc.compat.tvm.coverage import page, read_tables, survey
from byoc.errors import UserError

TABLE = pathlib.Path(__file__).parents[2] / "docs" / "relay_names.md"


def test_no_name_that_the_table_has_is_lost(installed):
    claimed = set(re.findall(r"`([\w.]+)` \| \d+ \| present", TABLE.read_text()))
    present = {entry.name for ranked in survey(read_tables(TABLE)) for entry in ranked.entries if not entry.missing}
    assert len(claimed) > 300 and claimed <= present


@pytest.mark.parametrize("checked", behaviours(), ids=lambda checked: f"{checked.area}-{checked.sentence[:60]}")
def test_a_behaviour_of_relay_holds(installed, checked):
    assert checked.missing() == ""


def test_a_behaviour_that_does_not_hold_is_reported_with_its_reason(installed):
    def check(tvm, relay):
        raise ValueError("it is otherwise\nand more")

    failing = Behaviour("types", "something is so", check)
    assert failing.missing() == "ValueError: it is otherwise"
    made = page([], [(failing, failing.missing()), (behaviours()[0], "")])
    assert "1 of the 2 behaviours hold." in made
    assert "| types | something is so | missing: ValueError: it is otherwise |" in made


def test_a_page_is_made_of_the_names_that_it_has_and_their_counts(installed, tmp_path):
    rows = "| # | name | CORE | T |\n|---|---|---|---|\n| 1 | `relay.var` | 1 | 6 |\n| 2 | `tvm.build` | 0 | 1 |"
    more = "| # | name | T | F |\n|---|---|---|---|\n| 1 | `relay.nonsense` | 3 | 1 |\n| 2 | `relay.add` | 2 | 9 |"
    (tmp_path / "names.md").write_text(f"# Names\n## 1. First\n{rows}\n## 2. Next\n{more}\n")
    made = page(survey(read_tables(tmp_path / "names.md")))
    assert "## 1. First\n\n1 of the 2 names are present; they are 85.7 % of 7 counted uses.\n" in made
    assert "## 2. Next\n\n1 of the 2 names are present; they are 40.0 % of 5 counted uses.\n" in made
    assert "| 1 | `relay.var` | 6 | present |" in made and "| 1 | `relay.nonsense` | 3 | missing: not written" in made
    assert "| 2 | `tvm.build` | 1 | missing: builds tensor-level functions" in made
    (tmp_path / "made.md").write_text(made)
    assert page(survey(read_tables(tmp_path / "made.md"))) == made


def test_the_page_has_the_207_base_names_and_the_next_260_in_their_order():
    base, following = read_tables(TABLE)
    for ranked, count in ((base, 207), (following, 260)):
        assert [entry.rank for entry in ranked.entries] == list(range(1, count + 1))
        assert len({entry.name for entry in ranked.entries}) == count
    assert (base.entries[0].name, following.entries[0].name) == ("relay.var", "relay.testing.run_infer_type")
    assert (base.entries[0].uses, following.entries[0].uses) == (1176, 231)


def test_a_file_without_a_table_is_one_sentence(tmp_path):
    (tmp_path / "empty.md").write_text("nothing")
    for path in (tmp_path / "empty.md", tmp_path / "gone.md"):
        with pytest.raises(UserError, match="table of ranked names"):
            read_tables(path)
