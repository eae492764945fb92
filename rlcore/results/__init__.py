"""Evaluate the episodes of a run: tables, rates with intervals, `summary.json`."""
