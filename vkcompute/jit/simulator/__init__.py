"""Simulation of kernels in Python: the user's own function, run by Python with numbers that behave as on a device.

The compiler reads the function first and records the types of variables at joins (recorder.py). The function is then
rewritten, with the same lines and file, so that calls and joined variables go through the simulator (rewriter.py). A
simulated number is a constant of the compiler (machine.py), so that the compiler's own rules promote, convert and
compute it; operations.py evaluates the operations of `ir/`. memory.py records the accesses to elements, invocations.py
schedules the invocations, and callstack.py finds the source locations.
"""
