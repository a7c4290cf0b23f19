"""What a plan is, and what it says."""
