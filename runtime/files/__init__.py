"""Files: opened as what they are, written whole or not at all, locked, mapped or read."""
