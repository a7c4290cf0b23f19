"""The names of this package, for editors and type checkers."""

from byoc.partition.content.region_measures import PlannedRegion as PlannedRegion
from byoc.partition.plan.plan import Plan as Plan
from byoc.partition.plan.planner import make_plan as make_plan
from byoc.partition.show.draw import to_dot as to_dot
from byoc.partition.show.draw import to_svg as to_svg
