"""
A crash, and bytes that a disk has lost
=======================================

A process is killed while it writes: the store still opens, with all that was published. Then bytes of the file are
overwritten: ``check`` names what is damaged, and ``salvage`` copies the rest.
"""

# %%
# A child process publishes four images, and is killed before it publishes the fifth.
import subprocess
import sys
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import blosc2

folder = tempfile.TemporaryDirectory()
path = f"{folder.name}/images.b2z"
program = """
import os, sys, blosc2
from skimage import data
store = blosc2.TreeStore(sys.argv[1], mode="w")
for name in ("camera", "coins", "moon", "text"):
    store[f"/{name}"] = blosc2.asarray(getattr(data, name)(), chunks=(64, 1024), blocks=(16, 1024))
store.flush()
store["/brick"] = data.brick()
os.kill(os.getpid(), 9)
"""
killed = subprocess.run([sys.executable, "-c", program, path], check=False)
with blosc2.open(path, mode="r") as store:
    published = sorted(store)
    where, size = store.member_window("/camera")[:2]
print(killed.returncode, published)

# %%
# One byte in the middle of an image is changed.
with open(path, "r+b") as file:
    file.seek(where + size // 2)
    byte = file.read(1)[0]
    file.seek(where + size // 2)
    file.write(bytes([byte ^ 255]))
report = blosc2.check(path)
print(report)

# %%
# With ``fill``, what is lost of an array is filled with a value, and the rest is there.
saved = blosc2.salvage(path, f"{folder.name}/saved.b2z", fill=0)
with blosc2.open(f"{folder.name}/saved.b2z", mode="r") as store:
    camera, coins = store["/camera"][...], store["/coins"][...]

figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for panel, image, name in zip(axes, (camera, coins), ("camera: one chunk is lost", "coins: whole"), strict=True):
    panel.imshow(image, cmap="gray")
    panel.set(title=name, xlabel="column", ylabel="row")
plt.show()

# %%
wrong = np.flatnonzero((camera != data.camera()).any(axis=1))
assert published == ["/camera", "/coins", "/moon", "/text"]
assert not report.ok
assert 0 < len(wrong) <= 64
assert np.array_equal(coins, data.coins())
folder.cleanup()
