"""The laws of a module between two passes, and who broke one: scopes, calls, types, regions, and what passes state."""
