"""From a function and the types of its arguments to SPIR-V: specializations, their cache, their arguments."""
