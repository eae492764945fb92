"""Compute a run's results from its episodes: tables, rates with intervals, `summary.json`."""
