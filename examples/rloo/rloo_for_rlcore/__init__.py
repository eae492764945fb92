"""REINFORCE with a leave-one-out baseline, for rlcore."""
