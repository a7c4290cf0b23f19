"""The passes that make groups of operators: what one kernel computes, and what views it reads through."""
