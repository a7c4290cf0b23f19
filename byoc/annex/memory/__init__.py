"""The passes that write memory into a program: allocations and lifetimes."""
