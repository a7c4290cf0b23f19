"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.debug.bisection import bisect as bisect
from byoc.debug.bisection import replay as replay
from byoc.debug.bisection_result import Bisection as Bisection
from byoc.debug.bisection_result import BisectionStep as BisectionStep
from byoc.debug.comparing import compare as compare
from byoc.debug.comparison import Comparison as Comparison
from byoc.debug.comparison import TensorRow as TensorRow
from byoc.debug.statistics import TensorStatistics as TensorStatistics
from byoc.debug.statistics import ValueStatistics as ValueStatistics
from byoc.debug.statistics import statistics as statistics
