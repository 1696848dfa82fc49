"""The sentences of errors."""

import pytest

from dpjax._errors import InputError


@pytest.mark.parametrize(
    ("remedy", "said"),
    [
        ("give a number above 0", "Give a number above 0."),
        ("a larger one is needed", "A larger one is needed."),
        ("k depends on the public rows: give them", "k depends on the public rows: give them."),
        ("m.scale is its scale", "m.scale is its scale."),
    ],
)
def test_a_remedy_begins_with_a_capital_unless_with_code_or_a_symbol(remedy, said):
    """It said "K depends on", which is another number."""
    assert str(InputError("rows", "is None", remedy)) == f"rows is None. {said}"
