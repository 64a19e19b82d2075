"""
Read many embeddings in one call
================================

A store has one small leaf for each document, and ``read_many`` reads a batch of them into one array.
Made data: three groups of points around their centres in 64 dimensions.
"""

# %%
# ``write_many`` takes pairs of key and array from a generator.
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import blosc2

rng = np.random.default_rng(5)
labels = np.repeat([0, 1, 2], 200)
vectors = (rng.normal(0, 1, (3, 64))[labels] + rng.normal(0, 0.5, (600, 64))).astype("f4")
folder = tempfile.TemporaryDirectory()
path = f"{folder.name}/embeddings.b2z"
with blosc2.TreeStore(path, mode="w") as store:
    store.write_many((f"/document/{number}", vector) for number, vector in enumerate(vectors))

# %%
# A batch is read in the order of its keys.
chosen = rng.permutation(600)[:300]
with blosc2.open(path, mode="r", mmap_mode="r") as store:
    batch = store.read_many([f"/document/{number}" for number in chosen])

centred = batch - batch.mean(0)
flat = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
for label, colour, marker in zip(range(3), ("#0072B2", "#E69F00", "#009E73"), "os^", strict=True):
    axes.scatter(*flat[labels[chosen] == label].T, color=colour, marker=marker, label=f"group {label}")
axes.set(title="300 of 600 embeddings", xlabel="first principal component", ylabel="second principal component")
axes.legend()
plt.show()

# %%
assert np.array_equal(batch, vectors[chosen])
folder.cleanup()
