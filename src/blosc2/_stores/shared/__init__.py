"""Stores that several handles change in turns: ``locking=True``.

Such a handle has a `Following` object, which looks at each access whether a newer version was published, and shows it.
If it may change the store, a `SharedWriting` object takes the place of the store's lock. Who enters that first waits
for the writer's lock and starts from the newest version; when that one leaves, the changes are published, or dropped if
they failed, and the lock is let go. So whatever holds the store's lock is one change for all others.
"""

__all__ = ["leaf", "session"]
