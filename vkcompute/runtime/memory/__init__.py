"""Typed, strided views of device memory, and transfers between them and the host."""
