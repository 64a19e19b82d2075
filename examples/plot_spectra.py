"""
Append spectra while they are measured
======================================

Spectra are appended to one array, a batch at a time, as an instrument gives them.
Made data: sums of Lorentz lines with noise, whose second line grows with time.
"""

# %%
# The array begins empty along the first axis and grows with each batch.
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import blosc2

rng = np.random.default_rng(16)
energy = np.linspace(0, 10, 1024)


def lorentz(centre, width):
    return width**2 / ((energy - centre) ** 2 + width**2)


def measure(times):
    lines = lorentz(3, 0.3) + times[:, None] * lorentz(6.5, 0.5)
    return (lines + rng.normal(0, 0.02, lines.shape)).astype("f4")


folder = tempfile.TemporaryDirectory()
path = f"{folder.name}/spectra.b2nd"
spectra = blosc2.zeros((0, 1024), dtype="f4", chunks=(50, 1024), blocks=(10, 1024), urlpath=path, mode="w")
batches = [measure(times) for times in np.linspace(0, 1, 200).reshape(10, 20)]
for batch in batches:
    spectra.append(batch)
spectra.attrs["unit"] = "eV"

# %%
# A reader takes the spectra that it wants by a list of their numbers.
stored = blosc2.open(path, mmap_mode="r")
chosen = [0, 100, 199]
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for number, spectrum, colour in zip(chosen, stored[chosen], ("#0072B2", "#E69F00", "#009E73"), strict=True):
    axes.plot(energy, spectrum, color=colour, label=f"spectrum {number}")
axes.set(title="A line grows between spectra", xlabel=f"energy ({stored.attrs['unit']})", ylabel="intensity")
axes.legend()
plt.show()

# %%
assert np.array_equal(stored[:], np.concatenate(batches))
del stored, spectra
folder.cleanup()
