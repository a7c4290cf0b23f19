"""From the graph language to the virtual machine's bytecode, and what of a model is made such."""
