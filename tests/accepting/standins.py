"""Stand-ins for objects of libraries that are not installed with the tests: what the package uses of their protocols."""

import numpy as np


class PolarsFrame:
    """A stand-in for a polars frame, which is not installed here: what the package uses of its protocol."""

    def __init__(self, columns):
        self._columns = columns

    @property
    def columns(self):
        return list(self._columns)

    @property
    def shape(self):
        return len(next(iter(self._columns.values()))), len(self._columns)

    def rows(self):
        return list(zip(*self._columns.values(), strict=True))

    def to_numpy(self):
        return np.array(self.rows())

    def __iter__(self):
        raise AssertionError("a polars frame iterates over its columns: nothing should")


class Graph:
    """A stand-in for a networkx graph, which is not installed here: what the package uses of its protocol."""

    def __init__(self, edges, directed=True, nodes=()):
        self._edges, self._directed = edges, directed
        self.nodes = list(dict.fromkeys([*nodes, *(node for edge in edges for node in edge[:2])]))

    def is_directed(self):
        return self._directed

    @property
    def edges(self):
        return lambda data=False: [(a, b, dict(attributes)) if data else (a, b) for a, b, attributes in self._edges]

    def __iter__(self):
        return iter(self.nodes)
