"""The passes that write memory into a program: allocations, lifetimes and their ends."""
