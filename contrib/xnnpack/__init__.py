"""The ``xnnpack`` backend: regions by XNNPACK's kernels, as models of LiteRT (TensorFlow Lite), channels innermost.

``backend.py`` is the whole integration, top to bottom; ``module.py`` is the half that an artefact needs.
"""
