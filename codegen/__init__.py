"""Code generators: the vendor's contract, what C and OpenCL share, and our three backends.

``c``, ``json`` and ``opencl`` are found by the entry points of the group ``byoc.backends`` when they are first asked
for (:func:`byoc.contract.backend.get_backend`); importing this package imports none of them.
"""

if __name__ != "byoc.codegen":  # a second copy of every class below it
    raise ImportError(
        f"{__name__} is byoc.codegen, found by a search path that holds byoc's checkout: import byoc.codegen instead"
    )
