"""Exchange trajectories and weights between actor and rollout where they are separate processes.

rollout --- trajectory, in pieces of whole columns ---> actor
rollout <-- weights of a version, in buckets ---------- actor

Both are conversations (:mod:`rlcore.rollout.messages`), so they run between processes and
within one, and a bounded queue limits the data in flight.
"""
