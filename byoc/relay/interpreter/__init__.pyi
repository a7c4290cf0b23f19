"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.relay.interpreter.entry import evaluate as evaluate
from byoc.relay.interpreter.entry import evaluate_value as evaluate_value
from byoc.relay.interpreter.machine import Interpreter as Interpreter
from byoc.relay.interpreter.operators import run_operator as run_operator
from byoc.relay.interpreter.values import Closure as Closure
from byoc.relay.interpreter.values import ConstructorValue as ConstructorValue
from byoc.relay.interpreter.values import EvaluationScope as EvaluationScope
from byoc.relay.interpreter.values import RefValue as RefValue
from byoc.relay.interpreter.values import Value as Value
from byoc.relay.interpreter.values import result_of as result_of
from byoc.relay.interpreter.values import value_of as value_of
