"""How plans are made: the policies, and what limits and prefers."""
