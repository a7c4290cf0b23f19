"""Backends of vendors, one file each, over the public API alone: what a package outside would hold."""

if __name__ != "byoc.contrib":  # a second copy of every class below it
    raise ImportError(
        f"{__name__} is byoc.contrib, found by a search path that holds byoc's checkout: import byoc.contrib instead"
    )
