"""From C to a library: the compiler as a process, its cache, and the processor that it builds for."""
