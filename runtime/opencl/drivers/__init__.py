"""What single drivers need: PoCL's linker and settings, and instructions that NVIDIA's takes in a binary alone."""
