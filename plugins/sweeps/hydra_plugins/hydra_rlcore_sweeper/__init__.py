"""A sweeper of Hydra: a search with Optuna over runs of rlcore."""
