"""
What is in a store, as a pandas table
=====================================

``stats`` counts leaves and bytes by group, dtype and codec without opening a leaf; pandas takes the rows as they are.
Made data: a study with scans, masks and measurements.
"""

# %%
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import blosc2

rng = np.random.default_rng(5)
z, y, x = np.mgrid[-1:1:24j, -1:1:48j, -1:1:48j]
folder = tempfile.TemporaryDirectory()
path = f"{folder.name}/study.b2z"
with blosc2.TreeStore(path, mode="w") as store:
    for patient in range(12):
        head = z**2 + y**2 + x**2 < 0.5 + 0.03 * patient
        store[f"/scans/{patient:03}"] = (head * 800 + rng.normal(0, 20, head.shape)).astype("i2")
        store[f"/masks/{patient:03}"] = head
        store[f"/blood/{patient:03}"] = rng.normal(5, 1, (200, 8))

# %%
# One row for each group below the root.
with blosc2.open(path, mode="r", mmap_mode="r") as store:
    table = pd.DataFrame(store.stats(depth=1)).set_index("group").drop("/")
    types = pd.DataFrame(store.stats(by="dtype"))
print(table[["leaves", "nbytes", "cbytes", "cratio"]])

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
table[["nbytes", "cbytes"]].div(1 << 10).plot.bar(ax=axes, color=["#999999", "#0072B2"], rot=0, logy=True)
axes.set(title="Bytes of each group", xlabel="group", ylabel="KiB")
axes.legend(["uncompressed", "compressed"])
plt.show()

# %%
assert list(table.leaves) == [12, 12, 12]
assert table.loc["/masks", "nbytes"] == 12 * 24 * 48 * 48
assert set(types.dtype) == {"int16", "bool", "float64"}
folder.cleanup()
