"""Provide the command line `rlcore VERB ...`, one module per verb of core."""
