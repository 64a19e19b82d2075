"""Damage: numbers that fields hold, bits, cuts and pieces, names, metadata; then, now and then, right checksums."""

from __future__ import annotations

import random

from . import generate, layout, repair
from .layout import Field
from .samples import Sample

#: What is said of a catalog whose checksums are right again.
FORGED = "checksums made right"
_LARGEST = 400_000


def damaged(sample: Sample, rng: random.Random, others: list[Sample]) -> tuple[Sample, str]:
    """A sample with one to four damages, and which they are."""
    files = dict(sample.files)
    name = rng.choice([n for n in files if files[n]] or list(files))
    data, notes = bytearray(files[name]), []
    if rng.random() < 0.02 and len(files) > 1:
        del files[name]
        return Sample(sample.name, sample.suffix, files), f"without {name}"
    notes += [damage(data, rng, others) for _ in range(rng.choice([1, 1, 1, 2, 2, 4]))]
    if rng.random() < 0.2 and b"PK\5\6" in data:
        repair.repair_directory(data)
        notes.append("directory repaired")
    if rng.random() < 0.5:
        repair.repair(data)
        notes.append("checksums repaired")
    files[name] = bytes(data[:_LARGEST])
    return Sample(sample.name, sample.suffix, files), "; ".join(notes)


def interesting(rng: random.Random, field: Field, data: bytearray, fields: list[Field]) -> int:
    """A value that a field may get: a border, a little more or less, or that of another field."""
    now = layout.number(data, field)
    kind = rng.random()
    if kind < 0.25:
        return rng.choice(generate.EDGES)
    if kind < 0.35:
        return (1 << 8 * field.width) - 1 - rng.choice(generate.EDGES[:22])
    if kind < 0.6:
        return now + rng.choice([-64, -32, -8, -4, -2, -1, 1, 2, 4, 8, 32, 40, 64, 4096])
    if kind < 0.7:
        return now ^ 1 << rng.randrange(8 * field.width)
    if kind < 0.85:
        return layout.number(data, rng.choice(fields)) + rng.choice([0, 0, 0, -1, 1])
    if kind < 0.93:
        return len(data) + rng.choice([0, 0, -1, 1, -32, -23, -22])
    return rng.choice([now * 2, now // 2, now << 8, rng.getrandbits(8 * field.width)])


def damage(data: bytearray, rng: random.Random, others: list[Sample]) -> str:
    """Do one damage; what it is."""
    if not data:
        data += rng.randbytes(40)
        return "bytes out of nothing"
    kind = rng.random()
    fields = layout.fields_of(data) if kind < 0.72 else []
    if kind < 0.6 and fields:
        # kinds of fields first: there are many more names and entries than headers
        names = sorted({field.name for field in fields})
        wanted = rng.choice(names)
        field = rng.choice([f for f in fields if f.name == wanted])
        if field.width not in (1, 2, 4, 8):
            return _bytes(data, rng, field)
        value = interesting(rng, field, data, [f for f in fields if f.width in (2, 4, 8)] or fields)
        layout.put_number(data, field, value)
        return f"{field.name} at {field.at} is {layout.number(data, field)}"
    if kind < 0.66 and fields:
        return _metadata(data, rng, fields)
    if kind < 0.72 and fields:
        return _swap(data, rng, fields)
    at = rng.randrange(len(data))
    if kind < 0.8:
        data[at] ^= 1 << rng.randrange(8)
        return f"a bit of byte {at}"
    if kind < 0.84:
        run = rng.choice([1, 4, 16, 64])
        data[at : at + run] = rng.choice([bytes(run), b"\xff" * run, rng.randbytes(run)])[: len(data) - at]
        return f"{run} bytes at {at}"
    if kind < 0.9:
        del data[at:]
        return f"cut at {at}"
    length = rng.choice([1, 8, 22, 32, 46, rng.randrange(1, 400)])
    if kind < 0.93:
        del data[at : at + length]
        return f"{length} bytes taken out at {at}"
    if kind < 0.97:
        start = rng.randrange(len(data))
        piece = data[start : start + length]
        if rng.random() < 0.5:
            data[at : at + len(piece)] = piece[: len(data) - at]
        else:
            data[at:at] = piece
        return f"{len(piece)} bytes of {start} to {at}"
    if kind < 0.98:  # the same again and again: what is done for each must not be done for all of them
        size = rng.choice([23, 32, 46, 87, 112, 200, 1000])
        start = rng.choice([0, max(0, len(data) - size), at])
        piece = data[start : start + size]
        times = rng.choice([10, 100, 1000]) if len(data) < 50_000 else 10
        data[at:at] = piece * times
        return f"{len(piece)} bytes of {start} {times} times at {at}"
    other = rng.choice(list(rng.choice(others).files.values())) or b"\0"
    start = rng.randrange(len(other))
    length *= rng.choice([1, 1, 16])
    if rng.random() < 0.3:  # one file behind another
        data += other
    else:
        data[at:at] = other[start : start + length]
    return f"{length} bytes of another file at {at}"


def _bytes(data: bytearray, rng: random.Random, field: Field) -> str:
    """A name, a dtype, a value: one byte of it, or all."""
    new = bytearray(data[field.at : field.at + field.width])
    if field.name == "b2nd.dtype":
        text = generate.dtype_text(rng).encode()
        new[:] = text[: len(new)].ljust(len(new))
    elif rng.random() < 0.5 and new:
        new[rng.randrange(len(new))] = rng.choice([0, 10, 0x2E, 0x2F, 0x5C, 0x7F, 0x80, 0xC3, 0xFF])
    elif "name" in field.name:
        new[:] = rng.choice(generate._NAMES)[: len(new)].ljust(len(new), b"x")
    else:
        new[:] = rng.randbytes(len(new))
    data[field.at : field.at + field.width] = new
    return f"{field.name} at {field.at} is {bytes(new[:40])!r}"


def _metadata(data: bytearray, rng: random.Random, fields: list[Field]) -> str:
    """A generated value over the content of a metadata entry, of any length; other fields are not adjusted."""
    marks = [f for f in fields if f.name.endswith("content_length")]
    if not marks:
        return "nothing"
    field = rng.choice(marks)
    length = min(layout.number(data, field), len(data) - field.at - 4)
    content = generate.packed(rng)
    if field.name.startswith("trailer"):
        content = generate.stored_value(rng, content)
    if field.name.startswith("table") and rng.random() < 0.7:
        content = content[:length].ljust(length, b"\xc0")
    start = field.at + 4
    data[start : start + min(length, len(data))] = content
    layout.put_number(data, field, len(content))
    # the trailer's own length and that of the frame
    more = len(content) - length
    if more and field.name.startswith("trailer"):
        for frame in [f for f in fields if f.name == "header.frame_len" and f.at < field.at][-1:]:
            layout.put_number(data, frame, layout.number(data, frame) + more)
            end = frame.at - 16 + layout.number(data, frame)
            if 22 <= end <= len(data):  # a frame that was damaged before may state less
                mark = Field(end - 22, 4, ">", "")
                layout.put_number(data, mark, layout.number(data, mark) + more)
    return f"metadata at {start} is {content[:20]!r}"


def _swap(data: bytearray, rng: random.Random, fields: list[Field]) -> str:
    """The values of two fields of one kind, exchanged or made equal."""
    field = rng.choice(fields)
    same = [f for f in fields if f.name == field.name and f.width == field.width]
    other = rng.choice(same)
    first, second = bytes(data[field.at : field.at + field.width]), bytes(data[other.at : other.at + other.width])
    data[field.at : field.at + len(second)] = second
    if rng.random() < 0.5:
        data[other.at : other.at + len(first)] = first
    return f"{field.name} at {field.at} and {other.at} exchanged"


def catalog_damaged(sample: Sample, rng: random.Random) -> tuple[Sample, str]:
    """Damage to the catalog of an archive alone, which must not be seen in what is read."""
    data = bytearray(sample.files[""])
    footer = data.rfind(layout.CATALOG_MAGIC)
    start = footer + 256 - layout.u(data, footer + 40, 8)
    part = data[start : footer + 256]
    size, notes = len(part), []
    for _ in range(rng.choice([1, 1, 2, 3])):
        before = bytes(part)
        notes.append(damage(part, rng, [sample]))
        if len(part) != size:
            part[:] = (part + before[len(part) :])[:size]
    data[start : footer + 256] = part
    if data.rfind(layout.CATALOG_MAGIC) == footer and rng.random() < 0.6:
        repair.repair_catalogs(data)
        # a forged size lets checksums lie before the catalog, where they would be damage to leaves
        data[:start] = sample.files[""][:start]
        notes.append(FORGED)
    return Sample(sample.name, sample.suffix, {"": bytes(data)}, sample.files[""]), "; ".join(notes)


def _anywhere(data: bytes | bytearray, rng: random.Random) -> int:
    """A position, one near the begin, or one near the end."""
    most = min(len(data), 200)
    return rng.choice([rng.randrange(len(data)), rng.randrange(most), len(data) - 1 - rng.randrange(most)])


def bits_damaged(sample: Sample, rng: random.Random) -> tuple[Sample, str]:
    """One wrong bit anywhere, or a run of wrong bytes behind the header: with checksums all of it is noticed."""
    data = bytearray(sample.files[""])
    if rng.random() < 0.6 or len(data) < 300:
        at = _anywhere(data, rng)
        data[at] ^= 1 << rng.randrange(8)
        return Sample(sample.name, sample.suffix, {"": bytes(data)}, sample.files[""]), f"a bit of byte {at}"
    first = 0 if sample.suffix == ".b2z" else layout.u(data, 11, 4, "big")
    at = rng.randrange(first, len(data) - 130)
    run = rng.choice([1, 2, 8, 64])
    data[at : at + run] = bytes(b ^ rng.randrange(1, 256) for b in data[at : at + run])
    return Sample(sample.name, sample.suffix, {"": bytes(data)}, sample.files[""]), f"{run} bytes at {at}"


def cut(sample: Sample, rng: random.Random) -> tuple[Sample, str]:
    """A frame without its end."""
    data = sample.files[""]
    size = min(_anywhere(data, rng), layout.u(data, 16, 8, "big") - 1)
    return Sample(sample.name, sample.suffix, {"": data[:size]}, data), f"cut at {size}"


def damaged_behind(sample: Sample, rng: random.Random) -> tuple[Sample, str]:
    """A frame with damage behind its header."""
    data = sample.files[""]
    first = layout.u(data, 11, 4, "big")
    rest = bytearray(data[first:])
    notes = [damage(rest, rng, [sample]) for _ in range(rng.choice([1, 2, 4]))]
    return Sample(sample.name, sample.suffix, {"": data[:first] + bytes(rest[:_LARGEST])}, data), "; ".join(notes)


def made(rng: random.Random) -> tuple[Sample, str]:
    """A file that is made from nothing."""
    kind = rng.randrange(8)
    if kind < 3:
        return Sample("made", ".b2nd", {"": generate.array_frame(rng)}), "an array"
    if kind < 5:
        return Sample("made", ".b2frame", {"": generate.schunk_frame(rng)}), "a super-chunk"
    if kind == 5:
        return Sample("made", ".chunk", {"": generate.chunk(rng)}), "a chunk"
    frames = [generate.array_frame(rng) for _ in range(2)] + [generate.schunk_frame(rng)]
    if kind == 6:
        return Sample("made", ".b2e", {"": generate.embedded(rng, frames)}), "embedded values"
    frames.append(generate.embedded(rng, frames))
    return Sample("made", ".b2z", {"": generate.archive(rng, frames)}), "an archive"
