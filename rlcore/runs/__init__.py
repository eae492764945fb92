"""The files of a run: configuration, manifest, metrics, checkpoints, results of episodes."""
