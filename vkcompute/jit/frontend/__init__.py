"""The language of kernels: values, operators, memory, the table of functions, and reports of the device."""
