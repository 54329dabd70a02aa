"""Builds the wheel, as PEP 517 asks for it, with the standard library alone."""

import base64
import hashlib
import io
import os
import re
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
EPOCH = (2020, 1, 1, 0, 0, 0)  # the same sources make the same wheel


def project():
    """The few lines of pyproject.toml that the metadata needs. tomllib is not in Python 3.9."""
    text = (HERE / "pyproject.toml").read_text("utf-8")

    def one(key):
        return re.search(rf'^{key} = "(.*)"$', text, re.MULTILINE).group(1)

    def many(key):
        return re.findall(r'"([^"]+)"', re.search(rf"^{key} = \[(.*)\]$", text, re.MULTILINE).group(1))

    return one, many


def metadata():
    one, many = project()
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {one('name')}",
        f"Version: {one('version')}",
        f"Summary: {one('description')}",
        f"Requires-Python: {one('requires-python')}",
        "License: Apache-2.0",
        "Classifier: Typing :: Typed",
        "Description-Content-Type: text/markdown",
    ]
    lines += [f"Requires-Dist: {d}" for d in many("dependencies")]
    lines += ["Provides-Extra: certificates"]
    lines += [f'Requires-Dist: {d} ; extra == "certificates"' for d in many("certificates")]
    return "\n".join(lines) + "\n\n" + (HERE / "README.md").read_text("utf-8")


def name():
    one, _ = project()
    return f"{one('name')}-{one('version')}"


WHEEL = "Wheel-Version: 1.0\nGenerator: aibridge\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder, files):
    path = Path(folder) / f"{name()}-py3-none-any.whl"
    info = f"{name()}.dist-info"
    files = {**files, f"{info}/METADATA": metadata().encode(), f"{info}/WHEEL": WHEEL.encode()}
    record = [f"{n},sha256={digest(data)},{len(data)}" for n, data in files.items()] + [f"{info}/RECORD,,"]
    files[f"{info}/RECORD"] = ("\n".join(record) + "\n").encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for n, data in files.items():
            entry = zipfile.ZipInfo(n, EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
    return path.name


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def sources():
    package = HERE / "src" / "aibridge"
    return {f"aibridge/{p.name}": p.read_bytes() for p in sorted(package.iterdir()) if p.suffix == ".py" or p.name == "py.typed"}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, sources())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, {"aibridge.pth": f"{HERE / 'src'}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    path = Path(sdist_directory) / f"{name()}.tar.gz"
    files = {"PKG-INFO": metadata().encode()}
    for top in ("pyproject.toml", "README.md", "backend/build_wheel.py"):
        files[top] = (HERE / top).read_bytes()
    files.update({"src/" + n: data for n, data in sources().items()})
    with tarfile.open(path, "w:gz") as t:
        for n, data in files.items():
            entry = tarfile.TarInfo(f"{name()}/{n}")
            entry.size = len(data)
            t.addfile(entry, io.BytesIO(data))
    return os.path.basename(path)


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_sdist = get_requires_for_build_editable = get_requires_for_build_wheel
