"""A tiny workload for the tests: normal samples of mean mu and deviation sigma, their squares, and a path of uniform steps."""

from __future__ import annotations

import dataclasses
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.sweep import Coordinate, Label, Prepared, Quantity


@dataclasses.dataclass(frozen=True, kw_only=True)
class Normals:
    sigma: float = 1.0
    law_version: int = 1
    fails_at: float | None = None
    fails_while: str = ""  # a file: while it is there, the cell mu=0 fails
    name: str = "normals"
    sample_bytes: int = 64

    @property
    def axes(self):
        return {"mu": Label(long_name="mean", units="m"), "sigma": Label(long_name="deviation"), "label": Label(long_name="label")}

    @property
    def coordinates(self):
        return {"step": Coordinate(values=np.array([0, 1, 2]), long_name="time", units="s")}

    @property
    def measures(self):
        return {
            "x": Quantity(long_name="sample", units="m", edges=(-1.0, 0.0, 1.0)),
            "square": Quantity(long_name="square", units="m^2"),
            "path": Quantity(long_name="path", units="m", dims=("step",), edges=(0.0,)),
        }

    @property
    def exact(self):
        return {"variance": Quantity(long_name="variance", units="m^2"), "drift": Quantity(long_name="drift", dims=("step",))}

    def check(self, cell):
        if cell.get("sigma", self.sigma) <= 0:
            raise ValueError(f"sigma is {cell['sigma']}; give a positive deviation")

    def prepare(self, cell):
        mu, sigma = float(cell.get("mu", 0.0)), float(cell.get("sigma", self.sigma))
        if mu == self.fails_at or (mu == 0 and self.fails_while and pathlib.Path(self.fails_while).exists()):
            raise RuntimeError("this cell fails on purpose")
        params = {"mu": np.float32(mu), "sigma": np.float32(sigma), "sigma64": np.float64(sigma)}
        return Prepared(params=params, exact={"variance": sigma**2, "drift": mu * np.arange(3.0)})

    def measure(self, key, params, first, n):
        def one(i):
            k = jax.random.fold_in(key, i)
            x = params["mu"] + params["sigma"] * jax.random.normal(k)
            with jax.enable_x64(True):
                path = jnp.cumsum(params["sigma64"] * (2.0 * jax.random.uniform(k, (3,), dtype=jnp.float64) - 1.0))
            return {"x": x, "square": x**2, "path": path}

        return jax.vmap(one)(first + jnp.arange(n, dtype=jnp.uint32))


def build(dataset, mechanism):
    """The builder that configs name in the tests."""
    return Normals(**mechanism)


def no_workload(dataset, mechanism):
    """A builder that builds something else."""
    return {}
