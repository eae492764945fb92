"""The Fetch robot of gymnasium-robotics, for rlcore."""
