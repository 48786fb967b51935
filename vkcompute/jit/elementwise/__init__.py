"""Functions of whole arrays made of functions of numbers: elementwise, vectorize and reduce."""
