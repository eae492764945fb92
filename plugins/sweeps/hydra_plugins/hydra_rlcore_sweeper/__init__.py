"""Hydra sweeper that searches over runs of rlcore with Optuna."""
