"""What a plan says: its cut, its regions, as JSON, beside another plan, and what it was asked for."""
