"""The reference interpreter: what "the right answer" means for any program of the graph language."""

from byoc.relay.interpreter.entry import evaluate, evaluate_value
from byoc.relay.interpreter.machine import Interpreter, run_operator
from byoc.relay.interpreter.values import (
    Closure,
    ConstructorValue,
    EvaluationScope,
    RefValue,
    Value,
    result_of,
    value_of,
)

__all__ = [
    "Closure",
    "ConstructorValue",
    "EvaluationScope",
    "Interpreter",
    "RefValue",
    "Value",
    "evaluate",
    "evaluate_value",
    "result_of",
    "run_operator",
    "value_of",
]
