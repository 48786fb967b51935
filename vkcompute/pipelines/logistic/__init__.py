"""Logistic regression: scikit-learn's conventions, input validation, and training on the device."""
