"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.relay.qnn import legalizations as legalizations
from byoc.relay.qnn import lowering as lowering
from byoc.relay.qnn import op as op
from byoc.relay.qnn import transform as transform
