"""
Zoom into an image pyramid
==========================

A photograph is stored at full size, at half, at a quarter and so on, each level under its own key.
A viewer takes the level that fits its window and reads only what the window shows.
"""

# %%
# The photograph comes with scikit-image. Blocks are squares, because windows are.
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import blosc2

photograph = data.astronaut()
folder = tempfile.TemporaryDirectory()
path = f"{folder.name}/pyramid.b2z"
with blosc2.TreeStore(path, mode="w") as store:
    level, image = 0, photograph
    while min(image.shape[:2]) >= 32:
        store[f"/astronaut/{level}"] = blosc2.asarray(image, layout="patches")
        halves = image.reshape(image.shape[0] // 2, 2, image.shape[1] // 2, 2, 3)
        level, image = level + 1, halves.mean(axis=(1, 3)).astype("u1")
    store["/astronaut"].attrs["levels"] = level

# %%
# Three windows of 128 x 128 pixels, each of half the width of the one before.
with blosc2.open(path, mode="r", mmap_mode="r") as store:
    windows = {
        2: store["/astronaut/2"][:128, :128],
        1: store["/astronaut/1"][0:128, 64:192],
        0: store["/astronaut/0"][64:192, 160:288],
    }
    levels = store["/astronaut"].attrs["levels"]

figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
for panel, (level, window) in zip(axes, windows.items(), strict=True):
    panel.imshow(window)
    panel.set(title=f"level {level} of {levels}", xlabel="column", ylabel="row")
plt.show()

# %%
assert np.array_equal(windows[0], photograph[64:192, 160:288])
assert all(window.shape == (128, 128, 3) for window in windows.values())
folder.cleanup()
