"""Graphs: tasks recorded once and run many times."""
