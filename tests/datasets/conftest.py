import gzip
from collections.abc import Callable

import pytest

from dpjax._errors import InputError


@pytest.fixture
def write(tmp_path) -> Callable:
    """Write text or bytes into a file of the test's own folder, gzipped where the name ends in .gz."""

    def writer(name, content):
        raw = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") and isinstance(content, str) else raw)
        return path

    return writer


@pytest.fixture
def refused() -> Callable:
    """Call and expect one ValueError of one plain sentence that holds all `words`, without another exception chained to it."""

    def check(call, *words, **options):
        with pytest.raises(ValueError, match=r".+\. .+") as caught:
            call(**options)
        error = caught.value
        assert type(error) is InputError
        assert error.__cause__ is None
        assert error.__context__ is None or error.__suppress_context__
        message = str(error)
        assert "\n" not in message
        for word in words:
            assert str(word) in message, message
        return message

    return check
