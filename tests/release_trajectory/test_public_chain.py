"""The chain's file: counts or probabilities, square or as columns."""

import numpy as np
import pytest

from dpjax.cli.privatize_trajectory import read_public_chain

FORMS = {
    "matrix of counts": "from,A,B\nA,3,1\nB,2,2\n",
    "matrix of probabilities": "from,A,B\nA,0.75,0.25\nB,0.5,0.5\n",
    "columns": "from,to,count\nA,A,3\nA,B,1\nB,A,2\nB,B,2\n",
    "columns in another order": "count;target;source\n3;A;A\n1;B;A\n2;A;B\n2;B;B\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_the_same_chain(tmp_path, form):
    path = tmp_path / "chain.csv"
    path.write_text(FORMS[form])
    chain = read_public_chain(path)
    assert chain.labels == ("A", "B")
    np.testing.assert_array_equal(chain.matrix, [[0.75, 0.25], [0.5, 0.5]])


def test_a_named_source_reads_its_own_format(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("A,B\nB,A\nA,A\n")
    assert read_public_chain(path, "pairs").n_states == 2
    path.write_text("from,AA,D\nAA,0.9,0.1\n")
    assert read_public_chain(path, "rating-matrix").is_irreducible()


def test_a_source_without_a_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="reads no file"):
        read_public_chain(tmp_path / "x.csv", "grades")
