"""Exchange trajectories and weights between actor and rollout workers in separate processes.

rollout worker --- trajectory, in pieces of whole columns ---> actor
rollout worker <-- one version of the weights, in buckets ---- actor

Both are conversations (:mod:`rlcore.rollout.messages`), so they run between processes and
within one, and a bounded queue limits the data in flight.
"""
