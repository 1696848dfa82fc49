"""The hash against its published vectors and against `jax.random`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax._random import threefry2x32, words_of

KEY = jax.random.key(2024)


def words(values):
    return jnp.asarray(values, jnp.uint32)


def test_threefry_known_answers():
    """The vectors published with Random123 for Threefry-2x32-20."""
    for key, counter, expected in [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]:
        out = threefry2x32(words(key), words([counter[0]]), words([counter[1]]))
        assert tuple(int(w[0]) for w in out) == expected


def test_threefry_is_the_generator_of_jax():
    with jax.enable_x64(True):
        ours = np.array(jax.random.bits(KEY, (1000,), jnp.uint64))
    high, low = threefry2x32(jax.random.key_data(KEY), jnp.zeros(1000, jnp.uint32), jnp.arange(1000, dtype=jnp.uint32))
    np.testing.assert_array_equal(ours, (np.asarray(high).astype(np.uint64) << np.uint64(32)) | np.asarray(low))


def test_folded_and_split_keys_have_the_words_of_one_hash():
    numbers = jnp.arange(1000, dtype=jnp.uint32)
    ours = np.stack(threefry2x32(words_of(KEY), jnp.zeros_like(numbers), numbers), axis=-1)
    np.testing.assert_array_equal(ours, jax.random.key_data(jax.random.split(KEY, 1000)))
    np.testing.assert_array_equal(ours, jax.random.key_data(jax.vmap(jax.random.fold_in, (None, 0))(KEY, numbers)))


def test_a_key_of_another_generator_is_refused():
    with pytest.raises(ValueError, match=r"key .* Pass a threefry key"):
        words_of(jax.random.key(0, impl="rbg"))
