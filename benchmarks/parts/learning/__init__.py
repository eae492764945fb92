"""Parts of benchmarks/learning.py: sets and arms, experts, cells, the order of runs, the page."""
