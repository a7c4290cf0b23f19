"""The ``xnnpack`` backend: regions by XNNPACK's kernels, as models of LiteRT (TensorFlow Lite), channels innermost.

``backend.py`` says what is taken, ``network.py`` writes a region as a model of LiteRT, ``tflite.py`` and
``flatbuffer.py`` know that format, ``module.py`` is the half that an artefact needs.
"""
