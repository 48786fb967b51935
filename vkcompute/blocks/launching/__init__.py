"""Launches of block programs: arguments, specializations, tuning, and interpretation on the host."""
