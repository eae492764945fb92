"""A launcher of Hydra: jobs of rlcore side by side on this machine."""
