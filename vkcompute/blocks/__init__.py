"""Block programs: Python functions whose values are blocks of elements, in the language of Triton."""
