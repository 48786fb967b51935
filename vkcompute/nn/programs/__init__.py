"""Block programs of the functions of neural networks."""
