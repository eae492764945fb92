"""Run many jobs with one command, through the launchers and sweepers of Hydra."""
