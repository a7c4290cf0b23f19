"""Attribute classes that an operator's own file and what it is made of both need."""
