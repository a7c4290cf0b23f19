"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.partition.costs.analytic import AnalyticModel as AnalyticModel
from byoc.partition.costs.mix import MixedModel as MixedModel
from byoc.partition.costs.model import CostModel as CostModel
from byoc.partition.costs.model import Estimate as Estimate
from byoc.partition.costs.model import UnitPlace as UnitPlace
from byoc.partition.costs.model import total as total
from byoc.partition.costs.profile import Memory as Memory
from byoc.partition.costs.profile import Profile as Profile
from byoc.partition.costs.profile import register_profile as register_profile
from byoc.partition.costs.spec import CostSpec as CostSpec
from byoc.partition.costs.spec import cost_model as cost_model
from byoc.partition.costs.table import FunctionModel as FunctionModel
from byoc.partition.costs.table import Table as Table
from byoc.partition.costs.table import TableModel as TableModel
