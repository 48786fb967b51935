"""Tasks on command queues: what depends on what, which queue runs it, when it is finished."""
