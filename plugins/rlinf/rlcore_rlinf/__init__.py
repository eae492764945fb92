"""Understand RLinf: its spellings of keys, its configuration files, its names of metrics."""
