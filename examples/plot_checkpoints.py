"""
Checkpoints of a model
======================

The weights of each step are published together by a transaction, so a killed training leaves no half of a checkpoint.
Made data: a small network learns a sine by gradient descent in NumPy.
"""

# %%
# Each checkpoint is a group: its weights are leaves, and its loss is an attribute.
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import blosc2

rng = np.random.default_rng(3)
x = np.linspace(-3, 3, 200)[:, None]
y = np.sin(x)
weights = {"w1": rng.normal(0, 1, (1, 32)), "b1": np.zeros(32), "w2": rng.normal(0, 0.2, (32, 1)), "b2": np.zeros(1)}


def predict(w):
    return np.tanh(x @ w["w1"] + w["b1"]) @ w["w2"] + w["b2"]


folder = tempfile.TemporaryDirectory()
path = f"{folder.name}/model.b2z"
kept = {}
with blosc2.TreeStore(path, mode="w") as store:
    for step in range(2001):
        hidden = np.tanh(x @ weights["w1"] + weights["b1"])
        error = predict(weights) - y
        if step in (0, 100, 2000):
            kept[step] = {name: value.copy() for name, value in weights.items()}
            with store.transaction():
                for name, value in weights.items():
                    store[f"/step{step}/{name}"] = value
                store[f"/step{step}"].attrs["loss"] = float(np.mean(error**2))
        back = error @ weights["w2"].T * (1 - hidden**2)
        slopes = {"w1": x.T @ back, "b1": back.sum(0), "w2": hidden.T @ error, "b2": error.sum(0)}
        for name, slope in slopes.items():
            weights[name] -= 0.05 * slope / len(x)

# %%
# Any checkpoint is restored exactly.
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(x, y, color="black", linestyle=":", label="sin(x)")
with blosc2.open(path, mode="r", mmap_mode="r") as store:
    for step, colour in zip(kept, ("#0072B2", "#E69F00", "#009E73"), strict=True):
        restored = {name: store[f"/step{step}/{name}"][:] for name in weights}
        loss = store[f"/step{step}"].attrs["loss"]
        axes.plot(x, predict(restored), color=colour, label=f"step {step}, loss {loss:.3f}")
        assert all(np.array_equal(restored[name], kept[step][name]) for name in weights)
axes.set(title="What the network has learnt at each checkpoint", xlabel="x", ylabel="y")
axes.legend()
plt.show()

# %%
folder.cleanup()
