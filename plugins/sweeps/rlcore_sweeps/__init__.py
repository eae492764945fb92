"""Many runs in one command, through the launchers and sweepers of Hydra."""
