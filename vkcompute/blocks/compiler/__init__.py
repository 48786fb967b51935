"""The compiler of block programs: its types, values, operators, and accesses to memory."""
