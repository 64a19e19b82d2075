"""
Months of a sensor, one hour at a time
======================================

A long series grows by appending, and a plot of any range reads only that range.
Made data: a daily wave, a slow trend and noise, one value a second for 30 days.
"""

# %%
# Each day is appended when it is over; ``transaction`` publishes the values and the date together.
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import blosc2

DAY = 24 * 3600
rng = np.random.default_rng(3)


def day(number):
    seconds = np.arange(number * DAY, (number + 1) * DAY)
    wave = 8 * np.sin(2 * np.pi * seconds / DAY) + seconds / DAY / 5
    return (wave + rng.normal(0, 0.2, DAY)).round(2).astype("f4")


folder = tempfile.TemporaryDirectory()
path = f"{folder.name}/sensor.b2nd"
days = [day(number) for number in range(30)]
series = blosc2.zeros((0,), dtype="f4", chunks=(DAY,), urlpath=path, mode="w")
for number, values in enumerate(days):
    with series.transaction():
        series.append(values)
        series.attrs["days"] = number + 1

# %%
# An overview takes one value of each hour; one hour is read in full.
stored = blosc2.open(path, mmap_mode="r")
overview, hour = stored[::3600], stored[12 * DAY : 12 * DAY + 3600]
figure, (above, below) = plt.subplots(2, figsize=(7, 5), layout="constrained")
above.plot(np.arange(len(overview)) / 24, overview, color="#0072B2")
above.set(title="One value of each hour", xlabel="day", ylabel="degrees")
below.plot(np.arange(3600) / 60, hour, color="#D55E00", linewidth=0.6)
below.set(title="The first hour of day 12, each second", xlabel="minute", ylabel="degrees")
plt.show()

# %%
assert stored.attrs["days"] == 30
assert np.array_equal(stored[...], np.concatenate(days))
assert np.array_equal(hour, days[12][:3600])
del stored, series
folder.cleanup()
