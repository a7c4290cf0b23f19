"""The commands about what is kept for devices: filling the cache, and looking after it."""
