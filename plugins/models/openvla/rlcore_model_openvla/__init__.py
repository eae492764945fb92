"""OpenVLA for rlcore: a policy that writes the tokens of an action one after the other."""
