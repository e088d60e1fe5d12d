"""The model file: plain arrays and a header of JSON in one .npz, checked before use."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation import __version__
from kde_imitation.errors import BadInput

FORMAT = 'kde_imitation model'
FORMAT_VERSION = 1
HEADER = 'header'
# A file that unpacks to more than this is not a model.
LARGEST = 256 * 2**20

# What reading a damaged or made-up zip file may raise; RuntimeError is for encrypted ones.
DAMAGED = (
    *(OSError, ValueError, EOFError, KeyError, IndexError, MemoryError, OverflowError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
)

Arrays = dict[str, npt.NDArray[Any]]


def digest(arrays: Arrays) -> str:
    """Return a digest of names, types, shapes and contents, whatever the order."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f'{name} {array.dtype.str} {array.shape}\n'.encode())
        total.update(array.tobytes())
    return total.hexdigest()


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: Arrays) -> None:
    """Write a model, whole or not at all: a file that exists is replaced at the last moment."""
    target = Path(path)
    complete = {
        'format': FORMAT,
        'format_version': FORMAT_VERSION,
        'version': __version__,
        **header,
        'digest': digest(arrays),
    }
    text = json.dumps(complete, allow_nan=False)
    packed = io.BytesIO()
    characters = np.frombuffer(text.encode(), dtype=np.uint8)
    named: dict[str, Any] = {HEADER: characters, **arrays}
    np.savez_compressed(packed, **named)
    write_whole(target, packed.getvalue())


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Put a file in place, whole or not at all; folders above it are made."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f'.{target.name}.')
        try:
            with os.fdopen(handle, 'wb') as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise BadInput(f'{target} cannot be written: {error.strerror or error}.') from error


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Read header and arrays; nothing in the file is run, and everything in it is checked."""
    source = Path(path)
    try:
        with zipfile.ZipFile(source) as packed:
            size = sum(entry.file_size for entry in packed.infolist())
        if size > LARGEST:
            raise BadInput(f'{source} unpacks to {size} bytes, which no model does.')
        with np.load(source, allow_pickle=False) as file:
            arrays: Arrays = {name: file[name] for name in file.files}
    except FileNotFoundError as error:
        raise BadInput(f'There is no file {source}; train a model first.') from error
    except IsADirectoryError as error:
        raise BadInput(f'{source} is a folder, not a model file.') from error
    except DAMAGED as error:
        reason = str(error).rstrip('.')
        raise BadInput(f'{source} is not a model file, or is damaged: {reason}.') from error
    header = _header(source, arrays.pop(HEADER, None))
    if header.get('digest') != digest(arrays):
        raise BadInput(f'{source} is damaged: its contents do not match their digest.')
    for name, array in arrays.items():
        if array.dtype.kind not in 'fiub' or (
            array.dtype.kind == 'f' and not np.isfinite(array).all()
        ):
            raise BadInput(f'{source} holds values in {name} that are not finite numbers.')
    return header, arrays


def _header(source: Path, characters: npt.NDArray[Any] | None) -> dict[str, Any]:
    try:
        if characters is None or characters.dtype != np.uint8:
            raise ValueError('it has no header')
        header = json.loads(characters.tobytes().decode())
        if not isinstance(header, dict) or header.get('format') != FORMAT:
            raise ValueError('its header is not one')
    except ValueError as error:
        raise BadInput(f'{source} is not a model of kde_imitation: {error}.') from error
    version = header.get('format_version')
    if version != FORMAT_VERSION:
        raise BadInput(
            f'{source} has format version {version}, but this version of kde_imitation reads '
            f'{FORMAT_VERSION}; train the model again.'
        )
    return header


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
