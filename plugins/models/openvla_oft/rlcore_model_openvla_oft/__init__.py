"""OpenVLA-OFT for rlcore: a policy that writes all tokens of an action chunk at once."""
