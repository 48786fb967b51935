"""Policy over core/: tensors, kernels, graphs, and the scheduler that orders their tasks."""
