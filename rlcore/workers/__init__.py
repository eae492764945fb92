"""Run the workers of a run, each in a process or all in one, and connect them."""
