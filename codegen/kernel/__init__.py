"""What the writers of C and OpenCL share: lowering, inlining, index simplification, loop nests, expression text.

Here stands also what a schedule may ask before it decides (``choice.py``).
"""
