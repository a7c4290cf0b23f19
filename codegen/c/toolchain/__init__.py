"""From C to a library: the compiler as a process, the flags that code needs, its cache, and the processor built for."""
