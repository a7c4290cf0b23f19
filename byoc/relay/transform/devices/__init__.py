"""The passes that say on which device every expression is, and what is copied between."""
