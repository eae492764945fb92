"""Hydra launcher that runs jobs of rlcore in parallel on this machine."""
