import numpy as np

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
