"""Carts on rails, a vectorised env for rlcore."""
