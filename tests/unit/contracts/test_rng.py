import numpy as np
import pytest

from rlcore.contracts.rng import RowKeys, generator


def test_equal_keys_give_equal_numbers_and_different_keys_do_not():
    first = generator(1, "noise", 3).standard_normal(4)
    np.testing.assert_array_equal(first, generator(1, "noise", 3).standard_normal(4))
    assert not np.array_equal(first, generator(1, "noise", 4).standard_normal(4))
    # "1", "23" and "12", "3" must not collide: parts are separated, not concatenated
    assert generator("1", "23").integers(2**62) != generator("12", "3").integers(2**62)


def test_a_row_does_not_depend_on_its_neighbours():
    together = RowKeys(((0, "a"), (0, "b"), (0, "c"))).normal("x", (2, 3))
    alone = RowKeys(((0, "b"),)).normal("x", (2, 3))
    np.testing.assert_array_equal(together[1:2], alone)


def test_each_row_has_the_draws_of_its_own_generator():
    keys = RowKeys(((0, "a"), (0, "b", 7), (3,)))
    own = [("x", *key) for key in keys.keys]
    normal = [generator(*key).standard_normal((2, 3), dtype=np.float32) for key in own]
    np.testing.assert_array_equal(keys.normal("x", (2, 3)), normal)
    uniform = [generator(*key).random() for key in own]
    np.testing.assert_array_equal(keys.uniform("x", ()), uniform)
    np.testing.assert_array_equal(keys.uniform("x", (1,))[:, 0], uniform)
    np.testing.assert_array_equal(keys.integers("x", 9), [generator(*k).integers(9) for k in own])


def test_streams_of_one_row_are_independent():
    keys = RowKeys(((0, "a"),))
    assert not np.array_equal(keys.normal("x", (3,)), keys.normal("y", (3,)))


def test_shapes_and_types():
    keys = RowKeys(((0,), (1,)))
    assert keys.normal("n", (5, 4)).shape == (2, 5, 4)
    assert keys.normal("n", (5,)).dtype == np.float32
    assert keys.uniform("u", ()).shape == (2,)
    draws = keys.integers("i", 3)
    assert draws.shape == (2,) and ((draws >= 0) & (draws < 3)).all()
    beta = keys.beta("b", 1.5, 1.0)
    assert ((beta > 0) & (beta < 1)).all()


def test_normal_noise_is_standard():
    noise = RowKeys(tuple((0, i) for i in range(400))).normal("n", (50,))
    # 20,000 draws: mean within 4 / sqrt(20000) = 0.028, variance within 4 sqrt(2 / 20000) = 0.04
    assert abs(noise.mean()) < 0.028
    assert abs(noise.var() - 1) < 0.04


DRAWS = {
    "normal": (
        lambda keys: keys.normal("s", (2, 3)),
        lambda g: g.standard_normal((2, 3), dtype=np.float32),
    ),
    "one normal": (
        lambda keys: keys.normal("s", ()),
        lambda g: g.standard_normal((), dtype=np.float32),
    ),
    "uniform": (lambda keys: keys.uniform("s", (5,)), lambda g: g.random((5,))),
    "small integers": (lambda keys: keys.integers("s", 81), lambda g: g.integers(81)),
    "large integers": (lambda keys: keys.integers("s", 2**40), lambda g: g.integers(2**40)),
    "beta": (lambda keys: keys.beta("s", 1.5, 1.0), lambda g: g.beta(1.5, 1.0)),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_every_row_draws_from_a_new_generator_of_its_key(kind):
    """A row must not see what the rows before it drew, nor a half that they left in a buffer."""
    draw, draw_one = DRAWS[kind]
    keys = ((), ("pad",), *((seed, "part", row, -1) for seed in (0, 7) for row in range(50)))
    drawn = draw(RowKeys(keys))
    expected = np.stack([np.asarray(draw_one(generator("s", *key))) for key in keys])
    assert drawn.dtype == expected.dtype
    np.testing.assert_array_equal(drawn, expected)
