"""Measurements: figures of time, and the rates of the device beside them."""
