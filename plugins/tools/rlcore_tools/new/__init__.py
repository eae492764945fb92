"""Packages for authors of plugins to begin with: `rlcore new`."""
