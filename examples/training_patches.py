"""
Training on patches
===================

Random patches of compressed volumes, read by threads, train a small network of PyTorch. The training stops in the
middle of an epoch and goes on there, with the batches that it would have had. Made data: bright blobs in noise.
"""

# %%
# Each patient is a group: a scan, its mask, and an index of voxels to draw foreground patches by.
import tempfile

import numpy as np
import torch

import blosc2
import blosc2.torch

PATCH = (16, 16, 16)
folder = tempfile.TemporaryDirectory()
path = f"{folder.name}/cohort.b2z"
axes = np.mgrid[0:32, 0:48, 0:48]
with blosc2.TreeStore(path, mode="w") as store:
    for patient in range(6):
        rng = np.random.default_rng(patient)
        scan = rng.normal(0, 0.3, axes.shape[1:])
        for _ in range(3):
            centre = rng.uniform(8, 26, 3)[:, None, None, None]
            scan += np.exp(-((axes - centre) ** 2).sum(0) / 20)
        mask = (scan > 0.7).astype("u1")
        store[f"/{patient}/scan"] = blosc2.asarray(scan.astype("f4"), layout=("patches", PATCH))
        store[f"/{patient}/mask"] = blosc2.asarray(mask, layout=("patches", PATCH))
        store[f"/{patient}/places"] = blosc2.foreground_index(mask)


# %%
# Half of the patches have foreground in the middle. A transform gets a generator for each sample, so that what it draws
# does not depend on which thread calls it.
def flip(sample, rng):
    if rng.random() < 0.5:
        sample = {name: tensor.flip(0) for name, tensor in sample.items()}
    return sample


def loader():
    patches = blosc2.torch.PatchSampler(
        path, PATCH, fields=("scan", "mask"), foreground="places", oversample=0.5, count=64, seed=1,
        transform=flip, rng=True,
    )  # fmt: skip
    return blosc2.torch.Loader(patches, batch_size=8, shuffle=True, workers=2)


# %%
# An ordinary loop.
torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Conv3d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv3d(8, 1, 3, padding=1))
optimizer = torch.optim.Adam(network.parameters(), 0.02)


def step(batch):
    wanted = batch["mask"][:, None].float()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(network(batch["scan"][:, None]), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


batches = loader()
losses = [step(batch) for _ in range(2) for batch in batches]
print(f"the loss fell from {losses[0]:.2f} to {losses[-1]:.2f}")

# %%
# Stop after three batches of the third epoch. A state is a few numbers, which go into the checkpoint.
for number, batch in enumerate(batches, 1):
    losses.append(step(batch))
    if number == 3:
        state = batches.state_dict()
        break
print(state)

# %%
# Another program goes on with the fourth batch of that epoch.
resumed = loader()
resumed.load_state_dict(state)
rest = list(resumed)
losses += [step(batch) for batch in rest]
whole = loader()
whole.set_epoch(2)
assert all(torch.equal(one["scan"], other["scan"]) for one, other in zip(rest, list(whole)[3:], strict=True))
print(f"{len(losses)} steps, and the loss is {losses[-1]:.2f}")

# %%
folder.cleanup()
