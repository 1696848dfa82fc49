"""The folder of a sweep: its files, its locks, and the runs that may share it.

    DIR/manifest.json      the fingerprint's parts and their hash, the meaning of the numbers, the description of the data; after
                           assembly also the runs
    DIR/runs/*.json        one for each run: shard, versions, platform, device, times
    DIR/cells/<cell>.npz   a finished cell; <cell>.partial.npz one in progress; <cell>.failed.json a failed one, with its error
    DIR/results.nc         every cell in one labelled data set, once all are there
    DIR/run.log            events, one per line
    DIR/lock*              the process that writes

Every file except the log is written atomically. A cell's file holds the fingerprint and the cell's own text, and its members have
checksums. A file that does not match is renamed to <file>.corrupt, and its cell is computed again.

*The fingerprint of a sweep* (`law_of`) contains everything on which the stored numbers depend, and nothing else. Two runs with the same
fingerprint may share a folder, resume each other and be merged; two runs with different ones may not. The memory limit, the devices, the
output folder, the shard and the path to the records are not part of it (the records themselves are, by their `fingerprint`). The place
where numbers were computed (`environment`: versions, platform, device) is recorded with every run, and never prevents a merge.

*One writer per folder, or one per shard.* A run of the whole grid and a merge lock the folder exclusively; runs of shards share its lock,
and each locks its shard exclusively. The locks are the kernel's (flock), so a killed process leaves none behind; the text of the lock
file only names the process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import errno
import fcntl
import hashlib
import json
import math
import os
import pathlib
import platform
import socket
import struct
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

import dpjax
from dpjax import _atomic as atomic
from dpjax._errors import InputError
from dpjax.sweep.blocks import Moments, automatic_block
from dpjax.sweep.config import Chosen, Config
from dpjax.sweep.grid import Cell, Shard
from dpjax.sweep.workload import Workload

_PATIENCE_S = 0.5  # a process that tests a lock holds it for an instant


@contextlib.contextmanager
def held(directory: pathlib.Path, shard: Shard | None = None) -> Iterator[None]:
    """A context that locks `directory` for the whole grid, or for `shard`; raises InputError if another process has the lock."""
    with contextlib.ExitStack() as stack:
        if shard is None or shard.total == 1:
            stack.enter_context(_locked(directory / "lock", fcntl.LOCK_EX))
        else:
            stack.enter_context(_locked(directory / "lock", fcntl.LOCK_SH))
            stack.enter_context(_locked(directory / f"lock-{shard.name}", fcntl.LOCK_EX))
        yield


def in_use(directory: pathlib.Path, shard: Shard) -> bool:
    """Whether a process is computing `shard` in `directory` now."""
    path = directory / ("lock" if shard.total == 1 else f"lock-{shard.name}")
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _taken(handle, fcntl.LOCK_SH, path)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _locked(path: pathlib.Path, mode: int) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        patience = time.monotonic() + _PATIENCE_S
        # ends: with the error below, when its patience is over
        while not _taken(handle, mode, path):
            if time.monotonic() > patience:
                raise InputError(
                    str(path.parent), f"is in use by {_holder(handle)}", "wait for it to end, or choose another folder"
                )
            time.sleep(0.02)
        _sign(handle)
        yield
    finally:
        os.close(handle)


def _taken(handle: int, mode: int, path: pathlib.Path) -> bool:
    """Take the lock if it is free; raises InputError on a file system without locks, which some clusters have."""
    try:
        fcntl.flock(handle, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise InputError(
            str(path.parent),
            f"is on a file system without locks ({error.strerror})",
            "choose a folder on another one, or have it mounted with flock",
        ) from None
    return True


def _sign(handle: int) -> None:
    """Write the process that holds the lock into the file; on a full disk the text may be missing, but the lock holds."""
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)


def _holder(handle: int) -> str:
    return os.pread(handle, 200, 0).decode(errors="replace") or "another process"


FORMAT = 1
_DAMAGE = (ValueError, KeyError, EOFError, RuntimeError, OverflowError, struct.error, zipfile.BadZipFile, zlib.error)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """The stored results of a cell: moments of `count` samples of each measure, and the exact quantities."""

    count: int
    moments: Mapping[str, Moments]
    exact: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Store:
    """The folder of one sweep. If the system cannot read a file, StorageError is raised and the file is not changed."""

    directory: pathlib.Path
    digest: str

    @property
    def cells(self) -> pathlib.Path:
        """The folder of the cells."""
        return self.directory / "cells"

    @property
    def results(self) -> pathlib.Path:
        """The file of the collected results."""
        return self.directory / "results.nc"

    def finished(self, cell: Cell) -> pathlib.Path:
        """The file of a finished cell."""
        return self.cells / f"{cell.digest}.npz"

    def partial(self, cell: Cell) -> pathlib.Path:
        """The file of a partly finished cell."""
        return self.cells / f"{cell.digest}.partial.npz"

    def failed(self, cell: Cell) -> pathlib.Path:
        """The file of a failed cell."""
        return self.cells / f"{cell.digest}.failed.json"

    def log(self, text: str) -> None:
        """Append a text to run.log."""
        try:
            with (self.directory / "run.log").open("a", encoding="utf-8") as file:
                file.write("".join(f"{now()} {line}\n" for line in text.splitlines()))
        except OSError as error:
            raise atomic.StorageError(f"cannot write {self.directory / 'run.log'}: {atomic.reason(error)}") from error

    def finish(self, cell: Cell, record: Record) -> None:
        """Store a finished cell; its checkpoint and its recorded error are deleted."""
        self._write(self.finished(cell), cell, record)
        for path in (self.partial(cell), self.failed(cell)):
            atomic.remove(path)

    def checkpoint(self, cell: Cell, record: Record) -> None:
        """Store the finished blocks of a cell."""
        self._write(self.partial(cell), cell, record)

    def fail(self, cell: Cell, error: str) -> None:
        """Record that a cell failed."""
        atomic.write_json(self.failed(cell), {"cell": cell.text, "error": error, "law": self.digest})

    def error_of(self, cell: Cell) -> str | None:
        """The recorded error of a failed cell; None if it did not fail."""
        path = self.failed(cell)
        try:
            with atomic.reading(path):
                return str(json.loads(path.read_text(encoding="utf-8"))["error"]) if path.exists() else None
        except (ValueError, KeyError, TypeError):
            return "it failed, and the record of its error is damaged"

    def read(self, path: pathlib.Path, cell: Cell) -> Record | None:
        """The record in a cell's file; None if the file is missing, or if it is corrupt and has been renamed."""
        try:
            with atomic.reading(path):
                return _load(path, self.digest, cell) if path.exists() else None
        except _DAMAGE as error:
            aside = path.with_name(path.name + ".corrupt")
            atomic.move(path, aside)
            self.log(f"{path.name} ({cell.text}) is corrupt ({error}); set aside as {aside.name}, to be computed again")
            return None

    def _write(self, path: pathlib.Path, cell: Cell, record: Record) -> None:
        members: dict[str, Any] = {"law": np.array(self.digest), "cell": np.array(cell.text), "count": np.array(record.count)}
        for name, moments in record.moments.items():
            members |= {
                f"measure/{name}/{field}": value for field, value in vars(moments).items() if field != "count" and value is not None
            }
        members |= {f"exact/{name}": value for name, value in record.exact.items()}
        members["contents"] = np.array(sorted(members))  # a damaged directory of the archive can hide members and their checksums

        def savez(temporary: pathlib.Path) -> None:
            with temporary.open("wb") as file:
                np.savez(file, **members)

        atomic.write(path, savez)


def _load(path: pathlib.Path, digest: str, cell: Cell) -> Record:
    members = _members(path)
    if members.pop("contents").tolist() != sorted(members):
        raise InputError("parts of it", "are missing")
    if str(members["law"]) != digest or str(members["cell"]) != cell.text:
        raise InputError("it", "belongs to another sweep or cell")
    count = int(members["count"])
    fields: dict[str, dict[str, np.ndarray]] = {}
    for key, value in members.items():
        if key.startswith("measure/"):
            _, name, field = key.split("/")
            fields.setdefault(name, {})[field] = value
    return Record(
        count=count,
        moments={name: Moments(count=count, **values) for name, values in fields.items()},
        exact={key.removeprefix("exact/"): value for key, value in members.items() if key.startswith("exact/")},
    )


def _members(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of an archive whose checksums are right; they are checked first, so that a later MemoryError is a true one."""
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                bad = archive.testzip()
        except OSError as error:
            if error.errno not in (
                None,
                errno.EINVAL,
            ):  # a damaged directory of the archive gives EINVAL, as it points out of the file
                raise
            raise ValueError(str(error)) from error
        if bad is not None:
            raise InputError(f"the checksum of {bad}", "is wrong")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def read_manifest(directory: pathlib.Path) -> dict[str, Any] | None:
    """The manifest of a folder; None if it is missing; raises InputError if this version cannot read it."""
    path = directory / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (PermissionError, IsADirectoryError, ValueError) as error:
        raise InputError(str(path), "cannot be read", str(error)) from None
    except OSError as error:
        raise atomic.StorageError(f"cannot read {path}: {atomic.reason(error)}") from error
    if (
        not isinstance(manifest, dict)
        or manifest.get("format") != FORMAT
        or digest_of(manifest.get("law", {})) != manifest.get("hash")
    ):
        raise InputError(str(path), f"is not a manifest of format {FORMAT}, or it was edited", "choose another folder")
    return manifest


def verify(directory: pathlib.Path, law: Mapping[str, Any]) -> None:
    """Require that `directory` may take results of the sweep `law`: absent, empty, or begun with the same one. Writes nothing."""
    manifest = read_manifest(directory)
    if manifest is None:
        if directory.exists() and (not directory.is_dir() or any(not _begun(path) for path in directory.iterdir())):
            raise InputError("output folder", f"is {str(directory)!r}", "it exists and holds something else: choose another folder")
        return
    if manifest["hash"] != digest_of(law):
        differing = "; ".join(differences(manifest["law"], law)[:3])
        raise InputError(str(directory), "holds the results of another sweep", f"{differing}. Choose another folder")


def _begun(path: pathlib.Path) -> bool:
    """Whether `path` may come from a run that was killed before it wrote its manifest."""
    return path.name.startswith(("lock", "manifest.json.")) or (path.name in ("cells", "runs") and not any(path.iterdir()))


def create(directory: pathlib.Path) -> None:
    """Make the folder and its subfolders; raises InputError if it cannot be written."""
    try:
        for folder in (directory, directory / "cells", directory / "runs"):
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        probe = directory / "lock"
        probe.touch()
    except OSError as error:
        raise InputError("output folder", f"is {str(directory)!r}", f"it cannot be written: {error.strerror}") from None


def begin(directory: pathlib.Path, law: Mapping[str, Any], schema: Mapping[str, Any], about: Mapping[str, Any]) -> Store:
    """The store of a created folder; writes the manifest if it is missing. Call it while holding the lock."""
    verify(directory, law)
    digest = digest_of(law)
    if read_manifest(directory) is None:
        manifest = {"format": FORMAT, "hash": digest, "law": law, "schema": schema, "about": about, "started": now()}
        atomic.write_json(directory / "manifest.json", manifest)
    return Store(directory=directory, digest=digest)


def runs_of(directory: pathlib.Path) -> list[dict[str, Any]]:
    """The records of the runs in a folder, oldest first, without damaged ones."""
    runs = []
    for path in sorted((directory / "runs").glob("*.json")):
        try:
            with atomic.reading(path):
                runs.append(json.loads(path.read_text(encoding="utf-8")))
        except ValueError:
            continue
    return runs


def fingerprint(**parts: Any) -> str:
    """SHA-256 of named arrays: numbers or strings, dense or SciPy sparse; None for an absent one."""
    digest = hashlib.sha256()
    for name in sorted(parts):
        for array in _arrays(parts[name]):
            if array.dtype.kind not in "biufU":
                raise InputError(name, f"has dtype {array.dtype}", "give numbers or strings for a fingerprint")
            digest.update(repr((name, array.dtype.str, array.shape)).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _arrays(value: Any) -> list[np.ndarray]:
    if value is None:
        return []
    if not hasattr(value, "tocoo"):
        return [np.asarray(value)]
    entries = value.tocoo()
    order = np.lexsort(entries.coords[::-1])
    return [np.asarray(value.shape), *(axis[order].astype(np.int64) for axis in entries.coords), entries.data[order]]


def law_of(config: Config, workload: Workload, data_fingerprint: str, chosen: Chosen) -> dict[str, Any]:
    """The parts of the fingerprint as a table of plain values; `sweep.block` and the axes in it are resolved."""
    samples = config.sweep.samples if chosen.taken else 0
    law = {
        "name": config.name,
        "workload": workload.name,
        "law_version": workload.law_version,
        "data": {key: value for key, value in config.data.items() if key != "path"},
        "data_fingerprint": data_fingerprint,
        "mechanism": config.mechanism,
        "sweep": {
            "samples": samples,
            "seed": config.sweep.seed,
            "block": config.sweep.block or automatic_block(workload.sample_bytes, samples),
            "axes": {name: list(values) for name, values in config.sweep.axes.items()},
            "zip": config.sweep.zip,
            **chosen.law(config.sweep),
        },
    }
    return {key: _plain(value) for key, value in law.items()}


def digest_of(law: Mapping[str, Any]) -> str:
    """The SHA-256 of the parts of a fingerprint."""
    return hashlib.sha256(json.dumps(law, sort_keys=True).encode()).hexdigest()


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Each key in which two sweeps differ, as "key is A there and B here"."""
    a, b = _flat(there), _flat(here)
    return [
        f"{key} is {a.get(key, 'absent')} there and {b.get(key, 'absent')} here"
        for key in sorted(a.keys() | b.keys())
        if a.get(key, "absent") != b.get(key, "absent")
    ]


def _plain(value: Any) -> Any:
    """`value` in a type that JSON has; other values, such as an infinite number or a date, as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = json.dumps(value)
    return flat


def environment() -> dict[str, str]:
    """The versions of the numerical libraries, the platform and the device, as strings."""
    device = jax.devices()[0]
    return {
        "dpjax": dpjax.__version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "host": socket.gethostname(),
        "backend": device.platform,
        "device": device.device_kind,
        "devices": str(jax.local_device_count()),
    }


def now() -> str:
    """The time in UTC, to the second, as ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
