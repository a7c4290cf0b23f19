"""How loops are divided: into blocks and tiles, at the edges of windows, and over the threads of a team."""
