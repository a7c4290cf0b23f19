"""Edits of files: JSON leaf by leaf, artefacts member by member with hashes made valid again, and bytes.

An edit is a function of a seed and the file alone, so that its number says everything about it.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable

from byoc.runtime.artefact.artifact import CODE_MEMBERS, KEY, MANIFEST, TRAILER_BYTES, seal_of, sealed

NUMBERS = (
    0,
    -1,
    1,
    2,
    3,
    7,
    64,
    255,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    1 << 40,
    1 << 60,
    (1 << 63) - 1,
    1 << 63,
    1 << 64,
)
VALUES: tuple[object, ...] = (
    None,
    True,
    False,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "exit",
    "abort",
    "N",
    "M",
    "a\0b",
    "\ud800",
    "../../etc/passwd",
    "x" * 5000,
    "float32",
    "float64",
    "object",
    "V8",
    "-1",
    "0",
    [],
    [[]],
    {},
    {"a": 1},
    [0],
    [1, 2, 3],
)
HOW = ("hashes", "resealed", "bytes", "cut", "splice", "zip")


def edited_json(data: object, rng: random.Random) -> bytes:
    """*data* as JSON with one leaf or branch changed, or its text damaged."""
    data = copy.deepcopy(data)
    for _ in range(1 + (rng.random() < 0.2)):
        places = list(_places(data))
        if places:
            rng.choice(_CHANGES)(*rng.choice(places), places, rng)
    text = json.dumps(data)
    chance = rng.random()
    if chance < 0.004:
        depth = rng.choice((300, 5000, 200_000))
        text = text.replace("[", "[" * depth + "0" + "]" * depth + ",[", 1) if "[" in text else "[" * depth
    elif chance < 0.02:
        text = re.sub(
            r"(\d+)", lambda m: rng.choice((m[1] + "0" * rng.choice((3, 30, 5000)), "1e999", "-" + m[1])), text, count=1
        )
    elif chance < 0.04:
        keys = re.findall(r'"[^"\\]*": ?[^,{}\[\]]+', text)
        if keys:
            found = rng.choice(keys)
            text = text.replace(found, f"{found}, {found}", 1)
    return text.encode("utf-8", "surrogatepass")


def _places(data: object) -> list[tuple[object, object]]:
    """Every container with each of its keys."""
    found: list[tuple[object, object]] = []
    stack = [data]
    while stack:
        value = stack.pop()
        keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        for key in keys:
            found.append((value, key))
            stack.append(value[key])
    return found


def _number(box, key, places, rng):
    old = box[key]
    more = (old * 1000, old + 1, old - 1, -old, old * 2, old // 2, float(old)) if type(old) is int else ()
    box[key] = rng.choice((*NUMBERS, *more, *more))


def _value(box, key, places, rng):
    box[key] = copy.deepcopy(rng.choice(VALUES))


def _other(box, key, places, rng):
    there, where = rng.choice(places)
    box[key] = copy.deepcopy(there[where])


def _delete(box, key, places, rng):
    del box[key]


def _add(box, key, places, rng):
    there, where = rng.choice(places)
    if isinstance(box, dict):
        box[rng.choice(("more", "shape", "a\0", str(key) + "_"))] = copy.deepcopy(there[where])
    else:
        box.insert(rng.randrange(len(box) + 1), copy.deepcopy(there[where] if rng.random() < 0.5 else box[key]))


def _reorder(box, key, places, rng):
    if isinstance(box, list):
        rng.shuffle(box) if rng.random() < 0.5 else box.reverse()
    else:
        names, values = list(box), list(box.values())
        rng.shuffle(values)
        box.update(zip(names, values, strict=True))


def _shorten(box, key, places, rng):
    if isinstance(box[key], list):
        del box[key][rng.randrange(len(box[key]) + 1) :]
    elif isinstance(box[key], str):
        box[key] = rng.choice((box[key][:-1], box[key] + "_", box[key].upper()))
    else:
        _number(box, key, places, rng)


_CHANGES: tuple[Callable[..., None], ...] = (
    _number,
    _number,
    _number,
    _value,
    _other,
    _delete,
    _add,
    _reorder,
    _shorten,
)


def edited_bytes(data: bytes, rng: random.Random, other: bytes = b"") -> bytes:
    """*data* with bits flipped, bytes set, parts cut, repeated, moved, or taken from *other*."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(out)) if out else 0
        size = min(rng.choice((1, 2, 4, 8, 64, 1000)), len(out) - at)
        kind = rng.randrange(7)
        if not out:
            break
        if kind == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at : at + size] = bytes(rng.choice((0, 255)) for _ in range(size))
        elif kind == 2:
            del out[at : at + size]
        elif kind == 3:
            out[at:at] = out[at : at + size]
        elif kind == 4:
            out[at : at + 4] = struct.pack("<I", rng.choice(NUMBERS) & 0xFFFFFFFF)[: len(out) - at]
        elif kind == 5 and other:
            start = rng.randrange(len(other))
            out[at : at + size] = other[start : start + size]
        else:
            del out[at:]
    return bytes(out)


class ArtifactEdits:
    """The edits of one artefact, whose members are read once."""

    def __init__(self, data: bytes):
        self.data = data
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            self.members = {info.filename: archive.read(info) for info in archive.infolist()}
        self.manifest = json.loads(self.members.pop(MANIFEST))
        self.json_members = [n for n in self.members if n.endswith(".json")]
        heads = [n for n in self.members if n.endswith((".safetensors", "/code"))]
        self.targets = [MANIFEST, *self.json_members, *self.json_members, *self.json_members, *heads]
        self.stripped = {n: _stripped(n, d) for n, d in self.members.items()}

    def edit(self, rng: random.Random, other: bytes) -> tuple[str, str, bytes]:
        """How it is edited, what, and the file."""
        how = rng.choices(HOW, (40, 30, 10, 4, 8, 8))[0]
        if how == "bytes":
            return how, "", edited_bytes(self.data, rng)
        if how == "cut":
            return how, "", self.data[: rng.randrange(len(self.data))]
        if how == "splice":
            at = rng.randrange(len(self.data))
            return how, "", rng.choice((self.data[:at] + other[at:], edited_bytes(self.data, rng, other)))
        if how == "zip":
            return how, "", self._odd_zip(rng)
        members = dict(self.stripped if how == "resealed" else self.members)
        manifest = copy.deepcopy({k: v for k, v in self.manifest.items() if k != "members"})
        name = rng.choice(self.targets)
        if rng.random() < 0.05:
            name = rng.choice(list(members))
            if name.rsplit("/", 1)[-1] not in CODE_MEMBERS:  # code that is edited is somebody else's code
                members[name] = edited_bytes(members[name], rng)
        elif rng.random() < 0.03:
            one, two = rng.choice(self.json_members), rng.choice(self.json_members)
            members[one], members[two] = members[two], members[one]
            name = f"{one} and {two}"
        elif name == MANIFEST:
            manifest = _as_object(edited_json(manifest, rng), manifest)
        elif name in self.json_members:
            members[name] = edited_json(json.loads(members[name]), rng)
        else:
            members[name] = _edited_head(members[name], rng)
        return how, name, _packed(manifest, members, how == "resealed")

    def _odd_zip(self, rng: random.Random) -> bytes:
        """The artefact as a zip file that readers disagree about."""
        content = {MANIFEST: json.dumps(self.manifest, indent=1).encode(), **self.members}
        names = list(content)
        kind = rng.randrange(8)
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if kind == 0 else zipfile.ZIP_STORED) as archive:
            for name in names:
                archive.writestr(zipfile.ZipInfo(name), content[name])
            if kind == 1:
                archive.writestr(zipfile.ZipInfo("../" + rng.choice(names)), b"outside")
            elif kind == 2:
                archive.comment = b"PK\5\6" + bytes(rng.randrange(40))
            elif kind == 3:
                for k in range(rng.choice((10, 30_000))):
                    archive.writestr(zipfile.ZipInfo(f"m{k}"), b"")
            elif kind == 4:
                archive.filelist.append(copy.copy(rng.choice(archive.filelist)))
        data = file.getvalue()
        if kind == 5:
            data = bytes(rng.randrange(1, 100)) + data
        elif kind == 6:
            at = data.rfind(b"PK\1\2") + rng.choice((8, 10, 16, 20, 24, 28, 30, 32, 34, 38, 42))
            data = data[:at] + struct.pack("<H", rng.choice(NUMBERS) & 0xFFFF) + data[at + 2 :]
        elif kind == 7:
            at = data.rfind(b"PK\5\6") + rng.choice((4, 6, 8, 10, 12, 16, 20))
            data = data[:at] + struct.pack("<H", rng.choice(NUMBERS) & 0xFFFF) + data[at + 2 :]
        return data


def _stripped(name: str, data: bytes) -> bytes:
    return data[:-TRAILER_BYTES] if name.rsplit("/", 1)[-1] in CODE_MEMBERS else data


def _as_object(text: bytes, otherwise: dict[str, object]) -> dict[str, object]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return otherwise
    return data if isinstance(data, dict) else otherwise


def _edited_head(data: bytes, rng: random.Random) -> bytes:
    """A member that begins with the length of its JSON head (safetensors, bytecode), the head edited."""
    start = 16 if data.startswith(b"byoc-vm\0") else 8
    (length,) = struct.unpack("<Q", data[start - 8 : start])
    head, body = edited_json(json.loads(data[start : start + length]), rng), data[start + length :]
    size = rng.choice(NUMBERS) & 0xFFFFFFFFFFFFFFFF if rng.random() < 0.05 else len(head)
    return data[: start - 8] + struct.pack("<Q", size) + head + body


def _packed(manifest: dict[str, object], members: dict[str, bytes], reseal: bool) -> bytes:
    """The artefact with right hashes; with *reseal* also with a seal that fits."""
    if reseal:
        manifest.pop(KEY, None)
        seal = seal_of(manifest, {n: hashlib.sha256(d).hexdigest() for n, d in members.items()})
        manifest[KEY], members = seal, sealed(seal, members)
    listed = {n: {"sha256": hashlib.sha256(d).hexdigest(), "bytes": len(d)} for n, d in members.items()}
    text = json.dumps({**manifest, "members": listed}, indent=1).encode("utf-8", "surrogatepass")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {MANIFEST: text, **members}.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return file.getvalue()
