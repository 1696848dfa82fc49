"""The law of a sweep: everything on which its stored numbers depend, and nothing else.

Two runs with the same law may share a folder, resume each other and be merged; with different laws they may not. The memory
limit, the devices, the output folder, the shard and the path to the records are outside the law (the records themselves are in it,
by their fingerprint).

Where numbers were made: versions, platform, device. Recorded with every run, never part of what may be merged.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import platform
import socket
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import dpjax
from dpjax._errors import InputError
from dpjax.sweep.blocks import automatic_block
from dpjax.sweep.config import Chosen, Config
from dpjax.sweep.workload import Workload


def fingerprint(**parts: Any) -> str:
    """SHA-256 of named arrays (numbers or strings, dense or SciPy sparse; None for what is absent)."""
    digest = hashlib.sha256()
    for name in sorted(parts):
        for array in _arrays(parts[name]):
            if array.dtype.kind not in "biufU":
                raise InputError(name, f"has dtype {array.dtype}", "a fingerprint is taken of numbers or strings")
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
    """The law as a table of plain values; `sweep.block` and the axes in it are resolved."""
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
    """The SHA-256 of a law."""
    return hashlib.sha256(json.dumps(law, sort_keys=True).encode()).hexdigest()


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Each key on which two laws differ, as "key is A there and B here"."""
    a, b = _flat(there), _flat(here)
    return [
        f"{key} is {a.get(key, 'absent')} there and {b.get(key, 'absent')} here"
        for key in sorted(a.keys() | b.keys())
        if a.get(key, "absent") != b.get(key, "absent")
    ]


def _plain(value: Any) -> Any:
    """`value` as JSON knows it; what JSON does not know, an infinite number or a date, as its text."""
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
    """Versions of what computes, the platform and the device, as strings."""
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
