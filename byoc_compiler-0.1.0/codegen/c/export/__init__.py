"""C to take away: a folder with a model as C, its weights, an example and a Makefile, which needs no Python."""
