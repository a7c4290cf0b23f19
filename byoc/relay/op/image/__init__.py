"""Image operators: the names of ``relay.image``."""
