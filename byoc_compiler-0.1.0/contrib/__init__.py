"""Backends of vendors, one file each, over the public API alone: what a package outside would hold."""
