"""Functions of whole tensors made of functions of numbers: elementwise, vectorize and reduce."""
