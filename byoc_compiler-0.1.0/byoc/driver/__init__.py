"""The pipeline from a model to a library, and the command line over it."""
