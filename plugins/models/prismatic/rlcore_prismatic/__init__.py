"""What token policies on the Prismatic vision-language model share. A library without entry points.

sizes, layout      shapes of the network, and the names its weights have on disk
files              what a checkpoint folder must hold, checked before any worker starts
stored, adapters   where its tensors are, and which adapters it has
config_files, statistics, trained     the contents of its JSON files; scaling: the ones in use
settings, resolved, spec     keys both models have, with nulls filled in, and their checks
actions, prompt, images, processor    between the env's numbers and the network's
network/           vision towers, projector, Llama, critic, adapters
sampling           from logits to tokens and log-probs
checkpoint, policy what is saved, and the policy that acts, scores and learns
"""
