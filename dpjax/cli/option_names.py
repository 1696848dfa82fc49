"""The options that set what the library names otherwise, so that a refusal names what the user typed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def by_option(options: Mapping[str, str]) -> Iterator[None]:
    """Within it a sentence `argument is value; mend` of the library begins with the option that set the argument.

    options: the option of each argument, by the library's name; sentences about other arguments stay as they are.
    """
    try:
        yield
    except ValueError as error:
        name, said, rest = str(error).partition(" is ")
        if name not in options:
            raise
        sentence = f"{options[name]}{said}{rest}"
    else:
        return
    raise ValueError(sentence)
