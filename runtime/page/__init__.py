"""Pages of plans and profiles: one file each, which fetches nothing; text from the model is escaped."""
