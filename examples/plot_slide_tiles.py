"""
Tiles of a slide for a window
=============================

A microscope slide is stored tile by tile. A window reads the few tiles that it needs in one call.
The tissue comes with scikit-image, and is repeated to make a large slide.
"""

# %%
# 512 tiles of 128 x 128 pixels are written in one call, from a generator.
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import blosc2

TILE = 128
tissue = data.immunohistochemistry()
slide = np.tile(np.block([[[tissue], [tissue[:, ::-1]]]]), (4, 4, 1))  # 2048 x 4096 pixels
names = {
    f"/slide/{row}/{column}": np.s_[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
    for row in range(slide.shape[0] // TILE)
    for column in range(slide.shape[1] // TILE)
}
folder = tempfile.TemporaryDirectory()
path = f"{folder.name}/slide.b2z"
with blosc2.TreeStore(path, mode="w") as store:
    store.write_many((name, slide[where]) for name, where in names.items())

# %%
# The window covers three by four tiles. ``read_many`` decompresses them in threads, into one array.
top, left, height, width = 300, 700, 256, 400
rows = range(top // TILE, (top + height - 1) // TILE + 1)
columns = range(left // TILE, (left + width - 1) // TILE + 1)
with blosc2.open(path, mode="r", mmap_mode="r") as store:
    tiles = store.read_many([f"/slide/{row}/{column}" for row in rows for column in columns])

together = tiles.reshape(len(rows), len(columns), TILE, TILE, 3).swapaxes(1, 2)
together = together.reshape(len(rows) * TILE, len(columns) * TILE, 3)
y, x = top - rows[0] * TILE, left - columns[0] * TILE
window = together[y : y + height, x : x + width]

figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
axes.imshow(window, extent=(left, left + width, top + height, top))
axes.set(title=f"A window of {len(tiles)} tiles of {len(names)}", xlabel="column", ylabel="row")
for edge in range(columns[0] + 1, columns[-1] + 1):
    axes.axvline(edge * TILE, color="black", linewidth=0.6)
for edge in range(rows[0] + 1, rows[-1] + 1):
    axes.axhline(edge * TILE, color="black", linewidth=0.6)
plt.show()

# %%
assert np.array_equal(window, slide[top : top + height, left : left + width])
folder.cleanup()
