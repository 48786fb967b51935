"""Policy over core/: arrays, kernels, graphs, and the scheduler that orders their tasks."""
