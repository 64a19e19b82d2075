"""Bytes that programs make, beside what they were: see `snapshots.py`."""
