"""What actor and rollout give each other where they are processes of their own.

rollout --- trajectory, in pieces of whole columns ---> actor
rollout <-- weights of a version, in buckets ---------- actor

Both are conversations (:mod:`rlcore.rollout.messages`), so they run over Ray's object store and
in one process alike, and a bounded queue bounds what is under way.
"""
