"""Whole computations on the scheduler: the array multiply and the logistic regression."""
