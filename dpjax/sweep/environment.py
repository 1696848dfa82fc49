"""Where numbers were made: versions, platform, device. Recorded with every run, never part of what may be merged."""

from __future__ import annotations

import datetime
import platform
import socket

import jax
import numpy as np

import dpjax


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
