"""The ``onednn`` backend: regions by the primitives of oneDNN on the processor, with what runs behind a product in it.

``backend.py`` says what is taken; ``module.py`` is the half that an artefact needs: a program, which ``building.py``
turns into primitives, in a file for each family of operators; ``library.py`` is oneDNN's C interface.
"""
