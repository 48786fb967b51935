"""Tasks on command queues: their dependencies, placement, submission and completion."""
