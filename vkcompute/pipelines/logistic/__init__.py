"""The parts of logistic regression: scikit-learn's conventions, checked input, and training on the device."""
