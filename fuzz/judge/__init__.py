"""What a model should have given, and whether what it gave is that."""
