"""What tests of backends are made of: cases, the reference, comparison, smaller cases, another process."""
