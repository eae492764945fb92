"""Processes, signals and timeouts; text and tables in terminals; the kernels of this processor."""
