"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.relay.text.parser import fromtext as fromtext
from byoc.relay.text.parser import parse as parse
from byoc.relay.text.parser import parse_expr as parse_expr
from byoc.relay.text.parser import parse_untyped as parse_untyped
from byoc.relay.text.printer import astext as astext
