"""What operators are made of: relations, layouts, windows, index arithmetic, the making of calls."""
