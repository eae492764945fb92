"""Share code between token policies on the Prismatic vision-language model. No entry points.

sizes, layout      shapes of the network, and the names its weights have on disk
files              checks of a checkpoint folder before any worker starts
stored, adapters   places of its tensors, and its adapters
base_files         files of the base model that checkpoints keep
config_files, statistics, trained     contents of its JSON files; scaling: the statistics in use
settings, resolved, spec     shared keys, with nulls filled in, and their checks
actions, prompt, images, processor    conversions between the env's numbers and the network's
network/           vision towers, projector, Llama, critic, adapters
sampling           from logits to tokens and log-probs
checkpoint, policy loading and saving, and the policy that acts, scores and learns
"""
