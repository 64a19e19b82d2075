"""Data as people store it, for the choice of compression: files that installed packages bring, and synthetic data.

Each function gives an array of 1 to 30 MB. The synthetic ones imitate what makes such data compressible: rounding,
noise of a sensor, fill values, slow change, repeated values.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = Any  # a NumPy array


def _smooth(rng: np.random.Generator, shape: tuple[int, ...], sigma: float) -> Array:
    """Noise whose neighbours are alike, with a standard deviation of 1."""
    from scipy.ndimage import gaussian_filter

    found: Array = gaussian_filter(rng.standard_normal(shape, dtype="f4"), sigma, mode="wrap")
    return found / found.std()


def ct() -> Array:
    """A body with organs in air, in Hounsfield units, with the noise of a scanner: i2."""
    rng = np.random.default_rng(1)
    z, y, x = np.meshgrid(*[np.linspace(-1, 1, n, dtype="f4") for n in (64, 256, 256)], indexing="ij", sparse=True)
    inside = (x / 0.8) ** 2 + (y / 0.6) ** 2 < 1 + 0.1 * z
    tissue = np.where(_smooth(rng, (64, 256, 256), 8) > 0.6, 400, 40) + 15 * _smooth(rng, (64, 256, 256), 3)
    noise = 12 * _smooth(rng, (64, 256, 256), 0.6)
    return np.where(inside, tissue + noise, -1000 + noise / 3).clip(-1024, 3071).astype("i2")


def mri() -> Array:
    """Sixteen smooth images with Rician noise and an empty background: u2."""
    rng = np.random.default_rng(2)
    signal = np.maximum(600 + 250 * _smooth(rng, (32, 192, 192), 6), 0)
    _, y, x = np.meshgrid(*[np.linspace(-1, 1, n, dtype="f4") for n in signal.shape], indexing="ij", sparse=True)
    signal = np.where(x**2 + y**2 < 0.6, signal, 0)
    noise = rng.normal(0, 9, (2, *signal.shape)).astype("f4")
    return np.hypot(signal + noise[0], noise[1]).astype("u2")


def fmri() -> Array:
    """A measured series of volumes, which nibabel brings: i2."""
    import nibabel
    from nibabel.testing import data_path

    return np.asarray(nibabel.load(Path(data_path) / "example4d.nii.gz").dataobj)


def _picture(name: str) -> Array:
    import skimage
    from PIL import Image

    return np.asarray(Image.open(Path(skimage.__file__).parent / "data" / name))


def photograph() -> Array:
    """A photograph in colours: u1 (rows, columns, 3)."""
    return _picture("astronaut.png")[..., :3].copy()


def retina() -> Array:
    """A medical photograph in colours: u1 (rows, columns, 3)."""
    return _picture("retina.jpg")


def histology() -> Array:
    """A stained section under a microscope: u1 (rows, columns, 3)."""
    return _picture("ihc.png")[..., :3].copy()


def faces() -> Array:
    """Small grey pictures of faces: f8, as scikit-image brings them."""
    import skimage

    return np.load(Path(skimage.__file__).parent / "data" / "lfw_subset.npy")


def depth() -> Array:
    """The disparity of a pair of photographs, with infinite values where it is unknown: f4."""
    import skimage

    found = np.load(Path(skimage.__file__).parent / "data" / "motorcycle_disp.npz")
    return found[found.files[0]].astype("f4")


def climate() -> Array:
    """Temperatures of the sea every six hours, rounded to 0.01, land as fill value: f4."""
    rng = np.random.default_rng(5)
    land = _smooth(rng, (180, 360), 12) > 0.5
    base = 290 + 25 * np.cos(np.linspace(-1.5, 1.5, 180, dtype="f4"))[:, None]
    weather = _smooth(rng, (60, 180, 360), 5)
    field = np.round(base + 4 * weather + 0.05 * rng.standard_normal(weather.shape, dtype="f4"), 2)
    return np.where(land, np.float32(9.96921e36), field).astype("f4")


def temperatures() -> Array:
    """Readings of thermometers, rounded to 0.1: f4 (hours, stations)."""
    rng = np.random.default_rng(6)
    hours = np.arange(20000, dtype="f4")[:, None]
    found = 12 + 9 * np.sin(hours / 1394) + 4 * np.sin(hours / 3.82) + rng.normal(0, 4, 100).astype("f4")
    return np.round(found + np.cumsum(rng.normal(0, 0.15, found.shape), 0).astype("f4"), 1)


def spectra() -> Array:
    """Mass spectra: peaks on a low, noisy base line, counts as f4 (spectra, bins)."""
    rng = np.random.default_rng(7)
    made = rng.poisson(3, (400, 8192)).astype("f4")
    axis = np.arange(8192, dtype="f4")
    for place in rng.uniform(0, 8192, 60):
        made += np.outer(rng.gamma(1, 300, 400), np.exp(-(((axis - place) / 6) ** 2))).round()
    return made.astype("f4")


def timestamps() -> Array:
    """Times of events in nanoseconds, some 1 ms apart: i8."""
    rng = np.random.default_rng(8)
    return 1_700_000_000_000_000_000 + np.cumsum(rng.gamma(2, 500, 1_000_000).astype("i8") * 1000)


def labels() -> Array:
    """The segmentation of a volume into 20 parts: u1."""
    rng = np.random.default_rng(9)
    found = np.zeros((64, 256, 256), "u1")
    for number in range(1, 20):
        found[_smooth(rng, found.shape, 7) > 1.8] = number
    return found


def embeddings() -> Array:
    """Vectors of unit length: f4 (vectors, 384)."""
    rng = np.random.default_rng(10)
    found = rng.standard_normal((20000, 384), dtype="f4") * rng.gamma(2, 1, 384).astype("f4")
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def checkpoint() -> Array:
    """Weights of a layer in half precision, each row with its scale: f2."""
    rng = np.random.default_rng(11)
    return (rng.standard_normal((2048, 2048), dtype="f4") * rng.gamma(4, 0.005, (2048, 1))).astype("f2")


def audio() -> Array:
    """Forty seconds of a tune with overtones, in stereo: i2 (samples, 2)."""
    rng = np.random.default_rng(12)
    rate, found = 44100, np.zeros(44100 * 40, "f4")
    for beat in range(80):
        pitch = 220 * 2 ** (rng.integers(0, 24) / 12)
        t = np.arange(rate, dtype="f4") / rate
        tone = sum(np.sin(2 * np.pi * pitch * k * t) / k**1.6 for k in range(1, 9)) * np.exp(-3 * t)
        at = beat * rate // 2
        found[at : at + rate] += tone[: len(found) - at]
    left = 6000 * found + 40 * _smooth(rng, found.shape, 1.5)
    return np.stack([left, 0.7 * left + 30 * rng.standard_normal(left.shape)], -1).clip(-32768, 32767).astype("i2")


def counts() -> Array:
    """Counts of genes in cells, most of them zero: i4 (cells, genes)."""
    rng = np.random.default_rng(13)
    return rng.poisson(rng.gamma(0.3, 0.4, 2000) * rng.gamma(3, 0.3, (2000, 1))).astype("i4")


def texts() -> Array:
    """Source text as bytes: u1."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    return np.frombuffer(b"".join(file.read_bytes() for file in files)[: 4 << 20], "u1")


def table() -> Array:
    """Trades: a structured type of an id, a time, a price, an amount and a kind."""
    rng = np.random.default_rng(14)
    n = 200_000
    made = np.zeros(n, [("id", "i8"), ("time", "i8"), ("price", "f8"), ("amount", "i4"), ("kind", "S4")])
    made["id"] = np.arange(n) + 7_000_000
    made["time"] = 1_700_000_000_000 + np.cumsum(rng.integers(0, 500, n))
    made["price"] = np.round(100 + np.cumsum(rng.normal(0, 0.01, n)), 2)
    made["amount"] = rng.integers(1, 40, n) * 100
    made["kind"] = rng.choice([b"buy", b"sell", b"stop"], n)
    return made


def walk() -> Array:
    """A random walk: f8."""
    return np.cumsum(np.random.default_rng(15).standard_normal(1_000_000))


def masks() -> Array:
    """Which items are valid: bool."""
    rng = np.random.default_rng(16)
    return _smooth(rng, (32, 512, 512), 6) > 0.7


def categories() -> Array:
    """Codes of categories, some of them frequent: i4."""
    rng = np.random.default_rng(17)
    return np.minimum(rng.zipf(1.6, 2_000_000), 500).astype("i4")


def noise() -> Array:
    """Bytes that nothing compresses: u1."""
    return np.random.default_rng(18).integers(0, 256, 16 << 20, "u1")


SETS: dict[str, Callable[[], Array]] = {
    made.__name__: made
    for made in (
        ct, mri, fmri, photograph, retina, histology, faces, depth, climate, temperatures, spectra, timestamps, labels,
        embeddings, checkpoint, audio, counts, texts, table, walk, masks, categories,
    )
}  # fmt: skip
