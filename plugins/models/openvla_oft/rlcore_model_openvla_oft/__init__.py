"""OpenVLA-OFT for rlcore: all tokens of an action chunk are written at once."""
