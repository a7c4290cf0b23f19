"""The whole program: the choice among the schedules, its units, their keys, its memory and its entries."""
