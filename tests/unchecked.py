"""A fixture for tests of what a user hands in: annotations are not checked, as in an installed package."""

import jaxtyping
import pytest


@pytest.fixture(autouse=True)
def as_a_user_has_it():
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
