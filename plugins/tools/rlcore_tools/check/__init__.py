"""Check plugins and components against the contract: `rlcore check`."""
