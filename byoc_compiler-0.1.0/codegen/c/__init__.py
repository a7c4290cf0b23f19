"""The C code generator: schedules, the emitter, the compiler with its cache, and the backend."""
