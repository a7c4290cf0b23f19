"""A plan as text, as a picture and as a page."""
