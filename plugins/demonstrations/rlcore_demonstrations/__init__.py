"""Run the workers of rlcore as Ray actors, on this machine or on a cluster."""

import os

# Ray reads this when it is imported. We report a worker that died, once and by its name.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^A worker died or was killed while executing")
