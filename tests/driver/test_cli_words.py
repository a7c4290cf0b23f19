"""The words that the command line knows before the compiler is loaded are those of the compiler."""

from dataclasses import fields

from byoc.cli import words
from byoc.codegen.c.winograd.options import CHOICES
from byoc.codegen.tune.level import LEVELS
from byoc.contract import Limits
from byoc.driver import fallback, planning, precision
from byoc.partition.places import FORMULAS
from byoc.partition.plan.request import TIME_LIMIT
from byoc.relay.qnn.quantize.ranges import METHODS, PERCENTILE


def test_the_command_line_says_what_the_compiler_says():
    assert words.PRECISIONS == precision.PRECISIONS
    assert tuple(LEVELS) == words.TUNE_LEVELS
    assert tuple(METHODS) == words.CALIBRATIONS and words.PERCENTILE == PERCENTILE
    assert tuple(CHOICES) == words.WINOGRAD
    assert tuple(planning.POLICIES) == words.POLICIES and words.OBJECTIVES == planning.OBJECTIVES
    assert tuple(FORMULAS) == words.FORMULAS
    assert tuple(words.LIMITS) == tuple(f.name for f in fields(Limits))
    assert words.TIME_LIMIT == TIME_LIMIT
    assert words.AVAILABLE == fallback.AVAILABLE
