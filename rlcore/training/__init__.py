"""A run from its session to its summary: training, evaluation, checkpoints, resume."""
