"""The words that options may be: a command line is read before the compiler is loaded.

That takes longer than a model takes which was compiled before. Each is what its module says, which a test compares.
"""

PRECISIONS = ("f32", "bf16", "int8")  # byoc.driver.precision
TUNE_LEVELS = ("none", "fast", "normal", "heavy")  # byoc.codegen.tune.level
CALIBRATIONS = ("minmax", "percentile", "mse", "entropy")  # byoc.relay.qnn.quantize
WINOGRAD = ("auto", "off", "f2", "f4")  # byoc.codegen.c.winograd.options
PERCENTILE = 99.99  # byoc.relay.qnn.quantize.ranges
POLICIES = ("order", "score", "cost", "model")  # byoc.driver.planning
OBJECTIVES = ("latency", "makespan")  # byoc.driver.planning
FORMULAS = ("document", "code")  # byoc.partition.places
LIMITS = {  # the fields of byoc.contract.backend.Limits
    "max_operators": int,
    "max_bytes": int,
    "max_regions": int,
    "min_operators": int,
    "min_gain": float,
    "min_operations": int,
}
TIME_LIMIT = 10.0  # byoc.partition.plan.request
AVAILABLE = "the host's version is in the artefact"  # byoc.driver.fallback
