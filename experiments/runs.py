"""Run a config as the command does, and return its stored results."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import xarray as xr

from dpjax import sweep
from dpjax.cli import main

CONFIGS = pathlib.Path(__file__).resolve().parent.parent / "configs"


def results_of(config: str, out: pathlib.Path, settings: Mapping[str, object] | None = None) -> xr.Dataset:
    """`dpjax run configs/CONFIG.toml --out OUT/CONFIG`, continued if it was stopped; raises SystemExit if it failed."""
    directory = out / config
    print(f"== {config}", flush=True)
    changes = [word for key, value in (settings or {}).items() for word in ("--set", f"{key}={value}")]
    code = main(["run", str(CONFIGS / f"{config}.toml"), "--out", str(directory), *changes])
    if code:
        raise SystemExit(code)
    return sweep.open(directory)
