"""The C code generator: the backend and the emitter, above the rooms that these are made of."""
