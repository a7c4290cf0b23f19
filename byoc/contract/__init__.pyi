"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.contract.backend import Backend as Backend
from byoc.contract.backend import PatternEntry as PatternEntry
from byoc.contract.backend import contradiction as contradiction
from byoc.contract.limits import Limits as Limits
from byoc.contract.options import checked_options as checked_options
from byoc.contract.registration import BACKENDS as BACKENDS
from byoc.contract.registration import backend_names as backend_names
from byoc.contract.registration import get_backend as get_backend
from byoc.contract.registration import register_backend as register_backend
from byoc.contract.relay_style import RelayStyleBackend as RelayStyleBackend
from byoc.contract.verdict import EVERY as EVERY
from byoc.contract.verdict import Constraint as Constraint
from byoc.contract.verdict import ConstraintCheck as ConstraintCheck
from byoc.contract.verdict import Reason as Reason
from byoc.contract.verdict import Verdict as Verdict
from byoc.contract.verdict import accept as accept
from byoc.contract.verdict import callee_name as callee_name
from byoc.contract.verdict import constraint as constraint
from byoc.contract.verdict import first_sentence as first_sentence
from byoc.contract.verdict import judge as judge
from byoc.contract.verdict import refuse as refuse
