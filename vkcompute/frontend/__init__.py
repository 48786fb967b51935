"""Source languages: scopes and control flow for any parser, the evaluator of Python's syntax trees, and `Language`."""
