"""Colours that fade with the spread of the filters: noise must look grey.

Groups of filters have the colours of `PALETTE`, on curves and maps alike; an embedding
has a colour for every point. Both are laid out in OKLab, whose distances are those that
people see.
"""

import numpy as np
from jaxtyping import Float

FULL_COLOUR = 0.1  # spread of the filters from which on colours are full

# Told apart by colour-blind readers, too (the first four are of Okabe and Ito), and
# three times as bright or dark as the page on white and on its dark ground.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a76ef8", "#8c556f")

_LIGHTNESS, _CHROMA = 0.72, 0.15  # of embeddings
_TO_LMS = np.asarray(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
_TO_RGB = np.asarray(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def group_colours(
    count: int, *, spread: float = FULL_COLOUR
) -> Float[np.ndarray, "R 3"]:
    """The colour of each group of filters, for its curve and for its nodes on the map.

    The colours of `PALETTE`, or as many hues as there are groups where there are more;
    they fade to greys as in `colours`.

    Args:
      count: number of groups.
      spread: of the filters, `Filters.spread`.

    Returns:
      Red, green and blue in [0, 1].

    Example:
      >>> hexadecimal(group_colours(2)[1]), hexadecimal(group_colours(1, spread=0.0)[0])
      ('#d55e00', '#6c6c6c')
    """
    if count <= len(PALETTE):
        rows = [bytes.fromhex(colour[1:]) for colour in PALETTE[:count]]
        lab = _to_lab(np.asarray([list(row) for row in rows]) / 255)
    else:
        angle = 2 * np.pi * np.arange(count) / count
        light = np.where(np.arange(count) % 2 == 0, 0.52, 0.66)
        plane = 0.1 * np.column_stack([np.cos(angle), np.sin(angle)])
        lab = np.column_stack([light, plane])
    return _to_rgb(lab * np.asarray([1.0, *2 * [_strength(spread)]]))


def colours(
    points: Float[np.ndarray, "N 2"], *, spread: float = FULL_COLOUR
) -> Float[np.ndarray, "N 3"]:
    """A colour for every point of an embedding: near points have alike colours.

    The plane, cut at its 1 % and 99 % quantiles, is laid on the colours of equal
    lightness of OKLab; the middle is grey. An embedding shows the smallest differences
    as large as any, so the colours fade with the spread of the filters: at
    `FULL_COLOUR` and more they are full, and noise is grey.

    Args:
      points: from `embed`.
      spread: of the filters, `Filters.spread`.

    Returns:
      Red, green and blue in [0, 1].

    Example:
      >>> colours(np.zeros((2, 2))).round(2).tolist()
      [[0.64, 0.64, 0.64], [0.64, 0.64, 0.64]]
    """
    low, high = np.quantile(points, [0.01, 0.99], axis=0)
    width = np.where(high > low, high - low, 1.0)
    unit = np.clip((points - low) / width, 0, 1) - np.where(high > low, 0.5, 0.0)
    plane = 2 * _CHROMA * _strength(spread) * unit
    return _to_rgb(np.column_stack([np.full(len(points), _LIGHTNESS), plane]))


def hexadecimal(colour: Float[np.ndarray, " 3"]) -> str:
    """A colour as HTML writes it.

    Example:
      >>> hexadecimal(np.asarray([1.0, 0.5, 0.0]))
      '#ff8000'
    """
    return "#" + bytes(np.rint(255 * colour).astype(np.uint8)).hex()


def _strength(spread: float) -> float:
    return min(spread / FULL_COLOUR, 1.0)


def _to_lab(rgb: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    lms = np.linalg.solve(_TO_RGB, linear.T)
    return np.linalg.solve(_TO_LMS, np.cbrt(lms)).T


def _to_rgb(lab: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
    """The nearest colour that a screen can show, channel by channel."""
    linear = np.clip((lab @ _TO_LMS.T) ** 3 @ _TO_RGB.T, 0, 1)
    curved = 1.055 * linear ** (1 / 2.4) - 0.055
    return np.where(linear <= 0.0031308, 12.92 * linear, curved).clip(0, 1)
