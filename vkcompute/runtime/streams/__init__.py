"""Streams: host data that passes through the device in chunks."""
