"""Run the workers of a run, each in a process or all in one, and connect them."""

import os

# Ray reads this when it is imported. We report a worker that died, once and by its name.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^A worker died or was killed while executing")
