"""OpenVLA for rlcore: the tokens of an action are written one after the other."""
