"""What passes are made of: the pass that types, passes over functions, tables of rules, spans."""
