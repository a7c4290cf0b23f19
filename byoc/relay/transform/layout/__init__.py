"""The passes that choose and change layouts, and the rules by which a layout passes through an operator."""
