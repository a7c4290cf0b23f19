"""The passes that cut a module into regions: patterns, annotations, merging, functions of their own."""
