"""Control flow and what it carries: branches, loops and scans, sequences and optionals."""
