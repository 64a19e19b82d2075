"""Loaders for training: samples, patches, their order, and batches read ahead by threads.

Nothing here needs another library than NumPy; `blosc2.torch` makes tensors of the same batches. What is drawn at random
depends on a seed, the epoch and the number of a sample alone, so that all kinds and numbers of workers give the same.
"""
