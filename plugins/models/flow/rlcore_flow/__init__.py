"""What flow policies share: π0, π0.5 and others with an action expert. A library without entry
points.

denoising        steps of a flow as Gaussians: noise methods, log-probs, entropies
network          what a network must offer; its supervised loss
actor            a network that explores: decisions, and the scores of stored ones
heads            what the critic reads, and the head that learns the noise
layers, vision   transformer layers and vision towers
policy           rlcore's policy protocols, for a network and a processor
settings, checks keys that all share, and how they may be combined
normalize        statistics of states and actions
lerobot*         LeRobot's folders: what those of all flow policies have in common

No module depends on a particular network.
"""
