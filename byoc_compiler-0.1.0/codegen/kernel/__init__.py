"""What the writers of C and OpenCL share: lowering, inlining, index simplification, loop nests, expression text."""
