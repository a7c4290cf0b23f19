"""The C code generator: the backend and the emitter, above the subpackages that these are made of."""
