"""Colours: told apart by all readers, on light and dark, and grey for noise."""

import itertools

import numpy as np
import pytest
import scipy.stats

from dsf_jax.explain.palette import PALETTE, colours, group_colours

GROUNDS = {"white": "#ffffff", "dark page": "#15181d"}  # page.html has the second
# what is left of linear RGB without one kind of cones (Machado et al. 2009)
EYES = {
    "all cones": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_LMS = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
TO_LAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


def linear(rgb):
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def parse(text):
    return np.asarray([int(text[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def luminance(rgb):
    return linear(rgb) @ [0.2126, 0.7152, 0.0722]


def oklab(light):
    return np.asarray(TO_LAB) @ np.cbrt(np.asarray(TO_LMS) @ light)


def nearest(rgb, eyes):
    """The smallest distance in OKLab of two of the colours."""
    seen = [oklab(np.clip(np.asarray(eyes) @ linear(row), 0, 1)) for row in rgb]
    return min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))


def saturation(rgb):
    return (rgb.max(axis=1) - rgb.min(axis=1)).max()


@pytest.mark.parametrize("eyes", EYES)
def test_groups_are_told_apart_by_all_readers(eyes):
    assert nearest(group_colours(len(PALETTE)), EYES[eyes]) > 0.07


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize(("spread", "least"), [(1.0, 3.0), (0.05, 2.8), (0.0, 2.8)])
def test_groups_stand_out_from_the_ground(ground, spread, least):
    """WCAG asks for a contrast of 3; faded colours may be a little below."""
    other = luminance(parse(GROUNDS[ground]))
    for rgb in group_colours(len(PALETTE), spread=spread):
        low, high = sorted([luminance(rgb), other])
        assert (high + 0.05) / (low + 0.05) > least


def test_groups_have_the_colours_of_the_palette():
    expected = [parse(colour) for colour in PALETTE[:3]]
    np.testing.assert_allclose(group_colours(3), expected, atol=1e-6)


@pytest.mark.parametrize("count", [7, 12])
def test_many_groups_have_different_colours(count):
    rgb = group_colours(count)
    assert rgb.shape == (count, 3)
    assert nearest(rgb, EYES["all cones"]) > 0.04


def test_colours_fade_with_the_spread(rng):
    points = rng.normal(size=(50, 2))
    for draw in (lambda spread: colours(points, spread=spread), faded_groups):
        assert saturation(draw(0.0)) < 1e-6
        assert saturation(draw(0.001)) < 0.02
        assert saturation(draw(0.05)) < saturation(draw(0.1))
        np.testing.assert_array_equal(draw(0.1), draw(0.5))


def faded_groups(spread):
    return group_colours(6, spread=spread)


def test_near_points_have_alike_colours(rng):
    points = rng.uniform(size=(200, 2))
    rgb = colours(points)
    assert rgb.min() >= 0
    assert rgb.max() <= 1
    apart = np.linalg.norm(points[:, None] - points, axis=2).ravel()
    unlike = np.linalg.norm(rgb[:, None] - rgb, axis=2).ravel()
    assert scipy.stats.spearmanr(apart, unlike).statistic > 0.9
