"""Provide the command line `rlcore COMMAND ...`, with a module for each command of core."""
