"""What flow policies share: π0, π0.5, SmolVLA. A library without entry points.

denoising        steps of a flow as Gaussians: noise methods, log-probs, entropies
network          what a network must offer; its supervised loss
actor            a network that explores: decisions, and the scores of stored ones
building         the actor that settings describe; which of its weights are trained
encoder          a frozen copy of the VLM, for the critics of algorithms
heads            what the critic reads, and the head that learns the noise
attention, layers, vision   parts of networks; sizes and shapes: the same without torch
adapt            frozen parts, adapters, bf16
policy           rlcore's policy protocols, for a network and a processor
settings, checks keys that all share, and how they may be combined
facts            numbers of parameters and of what a decision caches, without torch
normalize        statistics of states and actions
stored           weights of network and heads, read and written
head_shapes      names, shapes and recorded settings of the heads, without torch
lerobot*         LeRobot's folders: what those of all flow policies have in common

No module depends on a particular network.
"""
