"""What runs a program: the graph executor and ahead-of-time code, their memory and their overlap."""
