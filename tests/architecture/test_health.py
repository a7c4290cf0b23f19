"""``make health`` has a row for each measure, and none of them falls over. The slow ones are tested by their gates."""

import pytest

from tools.health.__main__ import ROWS, table

QUICK = sorted({*ROWS} - {"imports", "types", "lint"})


@pytest.mark.parametrize("name", QUICK)
def test_a_row_is_measured(name):
    row = ROWS[name]()
    assert row.measured and row.now and row.wanted
    assert row.holds or row.details  # what does not hold can be looked at
    text = table([row])
    assert row.measured in text and ("not yet" in text) is not row.holds
