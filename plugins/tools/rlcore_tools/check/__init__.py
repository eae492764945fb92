"""Whether a plugin keeps the contract: `rlcore check`."""
