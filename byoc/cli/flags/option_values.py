"""The words that options may be: a command line is read before the compiler is loaded.

That takes longer than a model takes which was compiled before. Each is what its module says, which a test compares.
"""

CALIBRATIONS = ("minmax", "percentile", "mse", "entropy")  # byoc.relay.qnn.quantize
WINOGRAD = ("auto", "off", "f2", "f4")  # byoc.codegen.c.winograd.options
PERCENTILE = 99.99  # byoc.relay.qnn.quantize.ranges
PROGRAM_ENDING = ".pt2"  # byoc.driver.model
AVAILABLE = "the host's version is in the artefact"  # byoc.driver.assembly
