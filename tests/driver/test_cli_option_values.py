"""The words that the command line and the declared options know before the compiler is loaded are the compiler's."""

from dataclasses import fields

from byoc.cli.flags import option_values
from byoc.codegen.c.export.options import WEIGHTS
from byoc.codegen.c.winograd.options import CHOICES
from byoc.codegen.tune.level import LEVELS
from byoc.contract import Limits
from byoc.driver import assembly, model, options
from byoc.options.texts import LIMITS
from byoc.partition.options import FORMULAS, OBJECTIVES, POLICIES
from byoc.partition.places import grade
from byoc.partition.plan import planner
from byoc.partition.solve import solver
from byoc.relay.qnn.quantize.ranges import METHODS, PERCENTILE


def test_the_command_line_says_what_the_compiler_says():
    assert tuple(METHODS) == option_values.CALIBRATIONS and option_values.PERCENTILE == PERCENTILE
    assert tuple(CHOICES) == option_values.WINOGRAD
    assert option_values.AVAILABLE == assembly.AVAILABLE
    assert option_values.PROGRAM_ENDING == model.PROGRAM_ENDING


def test_options_are_declared_with_the_words_of_the_compiler():
    assert tuple(LEVELS) == options.TUNE_LEVELS and options.UNTUNED in LEVELS
    assert options.WEIGHTS == WEIGHTS
    assert tuple(planner.POLICIES) == POLICIES and solver.OBJECTIVES == OBJECTIVES
    assert tuple(grade.FORMULAS) == FORMULAS
    assert tuple(LIMITS) == tuple(f.name for f in fields(Limits))
