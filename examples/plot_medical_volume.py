"""
Read a plane of a medical volume
================================

A 4-D brain scan becomes one array in a store, with its voxel sizes as attributes of the group.
The chunks hold one point in time each, so one volume is read without the others.
"""

# %%
# The scan comes with nibabel. Each chunk is one volume, and its blocks are thin along z.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import nibabel
import numpy as np

import blosc2

scan = nibabel.load(Path(nibabel.__file__).parent / "tests" / "data" / "example4d.nii.gz")
voxels = np.ascontiguousarray(scan.dataobj.get_unscaled())
folder = tempfile.TemporaryDirectory()
path = f"{folder.name}/scan.b2z"
with blosc2.TreeStore(path, mode="w") as store:
    store["/patient/mri"] = blosc2.asarray(voxels, chunks=(*voxels.shape[:3], 1), blocks=(*voxels.shape[:2], 2, 1))
    store["/patient"].attrs["voxel_sizes"] = [float(size) for size in scan.header.get_zooms()[:3]]

# %%
# Opened mapped, only the blocks of the plane that is shown are decompressed.
with blosc2.open(path, mode="r", mmap_mode="r") as store:
    dx, dy, dz = store["/patient"].attrs["voxel_sizes"]
    plane = store["/patient/mri"][:, :, 12, 0]

nx, ny = plane.shape
figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
image = axes.imshow(plane.T, cmap="gray", origin="lower", extent=(0, nx * dx, 0, ny * dy))
axes.set(title="One axial plane of a brain scan", xlabel="x (mm)", ylabel="y (mm)")
figure.colorbar(image, label="intensity as stored")
plt.show()

# %%
assert np.array_equal(plane, voxels[:, :, 12, 0])
folder.cleanup()
