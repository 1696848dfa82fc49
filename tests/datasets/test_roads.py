import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dpjax.datasets import read_points, read_road_turns


def _largest(counts):
    return np.bincount(connected_components(csr_array(counts), connection="strong")[1]).max()


@pytest.mark.parametrize(
    ("name", "states", "turns", "transitions", "largest"),
    [
        ("thessaloniki_iwet_turn_counts.csv", 2256, 2405, 294_889, 2014),
        ("thessaloniki_43_turn_counts.csv", 43, 54, 4988, 43),
    ],
)
def test_the_published_turns_lie_on_the_published_map(shared_data, name, states, turns, transitions, largest):
    folder = shared_data / "roads"
    segments, nodes = folder / "thessaloniki_iwet_segments.csv", folder / "thessaloniki_iwet_nodes.csv"
    data = read_road_turns(folder / name, segments=segments, nodes=nodes)
    nonzero = csr_array(data.counts).nnz
    assert (data.n_states, nonzero, data.counts.sum(), _largest(data.counts)) == (states, turns, transitions, largest)
    assert data.report.kept == transitions
    points = read_points(nodes)
    seg = {int(r.split(",")[0]): r.split(",")[1:3] for r in segments.read_text().split()[1:]}
    for label in (data.labels[0], data.labels[-1]):
        ends = [points[int(node)] for node in seg[label]]
        assert np.array_equal(data.segments[data.index(label)], ends)
        np.testing.assert_allclose(data.positions[data.index(label)], np.mean(ends, axis=0), rtol=1e-15)


def test_without_a_map_there_are_counts_alone(write):
    data = read_road_turns(write("t.csv", "from,to,count\n1,2,3\n2,1,4\n"))
    assert data.positions is None
    assert data.counts.tolist() == [[0, 3], [4, 0]]


def test_a_map_of_another_network_is_refused(write, refused):
    turns = write("t.csv", "from,to,count\n1,2,3\n2,1,4\n")
    segments = write("s.csv", "segment,from_node,to_node\n1,a,b\n")
    nodes = write("n.csv", "node,lon,lat\na,0,1\n")
    refused(read_road_turns, "nodes is not given", "both", path=turns, segments=segments)
    refused(read_road_turns, "segments is not given", "both", path=turns, nodes=nodes)
    refused(read_road_turns, "[2]", "s.csv", path=turns, segments=segments, nodes=nodes)
    both = write("s2.csv", "segment,from_node,to_node\n1,a,b\n2,b,a\n")
    refused(read_road_turns, "'b'", "n.csv", path=turns, segments=both, nodes=nodes)
    refused(read_road_turns, "line 2", "longitude", path=turns, segments=both, nodes=write("n2.csv", "node,lon,lat\na,east,1\n"))


def test_no_turn_at_all_is_refused(write, refused):
    refused(read_road_turns, "t.csv", "no turn", path=write("t.csv", "from,to,count\n1,2,0\n"))
