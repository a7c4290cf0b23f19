"""The passes that differentiate programs."""
