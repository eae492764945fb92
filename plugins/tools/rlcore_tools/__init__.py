"""Tools around a run: its report, videos and replays, trackers, and exported policies."""
