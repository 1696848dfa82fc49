"""Every line of the table of issue 18 gives what is right: the cases of `python -m benchmarks.accepting`."""

import pytest
import unchecked

from benchmarks.accepting import CASES

as_a_user_has_it = unchecked.as_a_user_has_it


@pytest.mark.parametrize("case", CASES, ids=[case.given for case in CASES])
def test_the_line_gives_what_is_right(case, tmp_path):
    right, now = case.run(tmp_path)
    assert right, now
