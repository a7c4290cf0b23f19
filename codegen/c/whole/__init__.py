"""The whole program: its units, their keys, its memory and its entries."""
