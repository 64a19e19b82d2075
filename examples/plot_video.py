"""
Read single frames of a video
=============================

Frames are written as they arrive, and any of them is read without those before it.
Made data: a disc that falls and bounces, with the noise of a camera.
"""

# %%
# An iterable of frames: only a few are in memory at a time. ``layout="samples"`` keeps each frame in blocks of its own.
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import blosc2

rng = np.random.default_rng(7)
rows, columns = np.mgrid[:120, :160]


def frame(number):
    height = 100 - 80 * abs(np.cos(number / 32))
    disc = (rows - height) ** 2 + (columns - 0.7 * number - 8) ** 2 < 16
    return (disc * 200 + rng.integers(0, 12, disc.shape)).astype("u1")


folder = tempfile.TemporaryDirectory()
path = f"{folder.name}/video.b2nd"
count = 200
frames = (frame(number)[np.newaxis] for number in range(count))
blosc2.asarray(frames, shape=(count, 120, 160), dtype="u1", layout="samples", urlpath=path, mode="w")

# %%
# The largest of 25 frames, pixel by pixel, shows the path of the disc. Only these frames are decompressed.
video = blosc2.open(path, mmap_mode="r")
some = video[::8]
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.imshow(some.max(axis=0), cmap="gray")
axes.set(title="Every eighth frame of a video, laid over each other", xlabel="column", ylabel="row")
plt.show()

# %%
# A frame that is read alone is the same, read into memory of your own with ``out=``.
again = np.empty((120, 160), "u1")
video.read(80, out=again)
assert np.array_equal(again, some[10])
assert some.shape == (25, 120, 160)
assert video.cratio > 1.5
del video
folder.cleanup()
