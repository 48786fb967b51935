"""Block programs of arrays, in the block language."""
