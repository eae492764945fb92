"""Tools around a run: its report, films and replays, trackers, and policies for elsewhere."""
