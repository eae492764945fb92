"""Stable-Baselines3's side of benchmarks/sac.py: python sac_peer.py LOG, with it installed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import gymnasium
import reach  # registers the env
import torch
from stable_baselines3 import SAC  # type: ignore[import-not-found]  # no dependency of ours
from stable_baselines3.common.callbacks import BaseCallback  # type: ignore[import-not-found]

WINDOW = 400


class Log(BaseCallback):  # type: ignore[misc]  # untyped here
    """Writes a line with the success of the episodes of each WINDOW env steps."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._episodes: list[bool] = []
        self._success = False

    def _on_step(self) -> bool:
        self._success |= bool(self.locals["infos"][0]["success"])
        if self.locals["dones"][0]:
            self._episodes.append(self._success)
            self._success = False
        if self.num_timesteps % WINDOW == 0:
            mean = sum(self._episodes) / len(self._episodes)
            row = {"step": self.num_timesteps // WINDOW, "env/success_once": mean}
            with self._file.open("a") as file:
                file.write(json.dumps(row) + "\n")
            self._episodes = []
        return True


def main() -> None:
    torch.set_num_threads(1)
    model = SAC(
        "MlpPolicy",
        gymnasium.make("Reach-v0", max_episode_steps=reach.LIMIT),
        learning_rate=3e-4,
        batch_size=256,
        gamma=0.99,
        tau=0.005,
        learning_starts=WINDOW,
        policy_kwargs={"net_arch": [256, 256]},
        device="cpu",
        seed=int(os.environ["SAC_SEED"]),
    )
    model.learn(int(os.environ["SAC_STEPS"]), callback=Log(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
