"""How a module is cut: targets asked, composites chosen, casts and annotations written."""
