"""From a Python function to the intermediate form: source, values, operators, memory, control flow, compiler."""
