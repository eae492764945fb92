"""What the episodes of a run come to: tables of them, rates with intervals, `summary.json`."""
