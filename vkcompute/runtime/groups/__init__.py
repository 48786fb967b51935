"""Groups: several devices that share the rows of an array."""
