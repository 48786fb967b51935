"""TorchInductor's backend for the device: the programs that it writes in Triton's language run as block programs.

    backend     the device for Inductor and Dynamo; `enable` registers it
    tracing     changes to Dynamo
    sources     modules that Inductor has written, loaded with our package in the place of Triton
    programs    a program of such a module: its grid, its constants, and its launches

Nothing here is imported before `torch.compile` is called.
"""
