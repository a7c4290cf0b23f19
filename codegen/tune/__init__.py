"""Tuning before inference: candidates for a kernel's schedule, their measurement, and the database of what won.

A schedule that has several ways asks a question (``kernel.choice.Question``), and answers it itself, by its cost
model, where nobody knows better.
"""
