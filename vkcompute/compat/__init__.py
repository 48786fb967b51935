"""Interfaces of other libraries on this runtime, for programs that were written for those."""
