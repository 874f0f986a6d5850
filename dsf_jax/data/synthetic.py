"""Generated graphs: `regions`, on which one shared filter must fail, and `csbm`.

Both draw from NumPy's PCG64, so a seed means the same graph everywhere.
"""

import numpy as np
from jaxtyping import Int

from dsf_jax.data.dataset import Dataset, make_dataset

NUM_REGIONS = 3


def regions(
    num_nodes: int = 600,
    *,
    seed: int = 0,
    degree: int = 6,
    num_features: int = 16,
    signal: float = 1.5,
    noise: float = 0.1,
    contrast: float = 1.0,
    num_bridges: int = 12,
) -> Dataset:
    """Three regions that need different filters; the embedded default.

    Two classes y_i = ±1, features x_i = y_i m + unit noise with |m| = `signal`, and
    three regions of equal size, joined by a few bridges:

    - region 0: half of the nodes are cold, that is, without features. Links join a cold
      and a warm node of the **same** class.
    - region 1: as region 0, but links join **different** classes.
    - region 2: all nodes have features, and links say nothing.

    Why one filter Σ_k α_k Â^k for all nodes must fail: a cold node reaches features in
    an odd number of hops only, so what it learns is the odd part of the polynomial,
    f_odd(Â) x. In region 0 that has the sign of its class, in region 1 the opposite
    one: whatever helps the cold nodes of one region misleads those of the other.
    (Without cold nodes the even powers would serve both regions alike.) A filter per
    node changes the sign of its odd orders with the region, and positions tell regions
    apart.

    Args:
      num_nodes: N, at least 60; nodes are ordered by region, cold nodes first.
      seed: seed of everything that is drawn.
      degree: mean degree, before repeated links merge.
      num_features: F.
      signal: |m|; a single node is classified with probability Φ(|m|).
      noise: share of links in regions 0 and 1 that join the wrong classes.
      contrast: from 0, where region 1 is linked as region 0 and one filter serves both,
        over 0.5, where its links say nothing, to 1, where they say the opposite.
      num_bridges: links between regions.

    Returns:
      The data set; `region_of` gives the region of each node.

    Raises:
      ValueError: if a number breaks its rule.

    Example:
      >>> dataset = regions(120)
      >>> cold = np.asarray(abs(dataset.features).sum(axis=1)) == 0
      >>> np.bincount(region_of(120)[cold]).tolist()
      [20, 20]
    """
    _check("num_nodes", num_nodes, 60)
    _check("degree", degree, 2)
    _check("noise", noise, 0, 0.5)  # at one half links say nothing
    _check("contrast", contrast, 0, 1)
    rng = np.random.Generator(np.random.PCG64(seed))
    region = region_of(num_nodes)
    labels = np.arange(num_nodes) % 2
    rows = [np.flatnonzero(region == r) for r in range(NUM_REGIONS)]
    cold = np.concatenate([nodes[: len(nodes) // 2] for nodes in rows[:2]])
    wrong = (1 - contrast) * noise + contrast * (1 - noise)
    edges = [
        _cold_links(rows[0], labels, rng, degree, wrong=noise),
        _cold_links(rows[1], labels, rng, degree, wrong=wrong),
        _random_links(rows[2], rows[2], rng, degree * len(rows[2]) // 2),
    ]
    for _ in range(num_bridges):
        one, other = rng.choice(NUM_REGIONS, size=2, replace=False)
        edges.append(_random_links(rows[one], rows[other], rng, 1))
    direction = rng.normal(size=num_features)
    mean = signal * direction / np.linalg.norm(direction)
    features = rng.normal(size=(num_nodes, num_features))
    features += (2.0 * labels - 1.0)[:, None] * mean
    features[cold] = 0.0
    return make_dataset(np.concatenate(edges), features, labels, name="regions")


def region_of(num_nodes: int) -> Int[np.ndarray, " N"]:
    """Region of each node of `regions`: three blocks of equal size.

    Example:
      >>> region_of(6).tolist()
      [0, 0, 1, 1, 2, 2]
    """
    return np.arange(num_nodes) * NUM_REGIONS // num_nodes


def csbm(
    num_nodes: int = 3000,
    *,
    phi: float,
    seed: int = 0,
    degree: float = 5.0,
    num_features: int = 1000,
    epsilon: float = 3.25,
) -> Dataset:
    """Contextual stochastic block model with GPR-GNN's φ.

        P(edge i, j) = (d + √d λ v_i v_j) / N,   x_i = √(μ / N) v_i u + w_i / √F
        λ = √(1 + ε) sin(π φ / 2),   μ = √(ξ (1 + ε)) cos(π φ / 2),   ξ = N / F

    with classes v_i = ±1, u of length about 1 and w_i standard normal. The information
    λ² + μ² / ξ = 1 + ε is the same for every φ; φ says where it is: 0 in the features
    alone, 1 in a homophilic graph alone, -1 in a heterophilic one.

    Args:
      num_nodes: N, at least 10.
      phi: φ in [-1, 1].
      seed: seed of everything that is drawn.
      degree: mean degree d, at least 1 + ε, so that probabilities are not negative.
      num_features: F.
      epsilon: ε > -1, the distance from the threshold of detection.

    Returns:
      The data set.

    Raises:
      ValueError: if a number breaks its rule.

    Example:
      >>> csbm(200, phi=0.5, num_features=50).features.shape
      (200, 50)
    """
    _check("num_nodes", num_nodes, 10)
    _check("phi", phi, -1, 1)
    _check("epsilon", epsilon, -1)
    _check("degree", degree, 1 + epsilon)  # else a probability may be negative
    rng = np.random.Generator(np.random.PCG64(seed))
    angle, ratio = np.pi * phi / 2, num_nodes / num_features
    strength = np.sqrt(1 + epsilon) * np.sin(angle)
    mu = np.sqrt(ratio * (1 + epsilon)) * np.cos(angle)
    labels = np.arange(num_nodes) % 2
    zeros, ones = np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)
    inside = (degree + np.sqrt(degree) * strength) / num_nodes
    across = (degree - np.sqrt(degree) * strength) / num_nodes
    edges = [
        _pairs_within(zeros, rng, inside),
        _pairs_within(ones, rng, inside),
        _pairs_between(zeros, ones, rng, across),
    ]
    u = rng.normal(size=num_features) / np.sqrt(num_features)
    features = rng.normal(size=(num_nodes, num_features)) / np.sqrt(num_features)
    features += np.sqrt(mu / num_nodes) * (2.0 * labels - 1.0)[:, None] * u
    return make_dataset(np.concatenate(edges), features, labels, name=f"csbm({phi:g})")


def _cold_links(
    nodes: Int[np.ndarray, " n"],
    labels: Int[np.ndarray, " N"],
    rng: np.random.Generator,
    degree: int,
    *,
    wrong: float,
) -> Int[np.ndarray, "M 2"]:
    """`degree` links from each cold node to warm ones, a share to the other class."""
    cold, warm = nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]
    warm_of = [warm[labels[warm] == label] for label in (0, 1)]
    ends = np.repeat(cold, degree)
    target = labels[ends] ^ (rng.uniform(size=len(ends)) < wrong)
    partners = [rng.choice(warm_of[label]) for label in target]
    return np.stack([ends, np.asarray(partners)], axis=1)


def _random_links(
    one: Int[np.ndarray, " n"],
    other: Int[np.ndarray, " m"],
    rng: np.random.Generator,
    count: int,
) -> Int[np.ndarray, "M 2"]:
    return np.stack([rng.choice(one, count), rng.choice(other, count)], axis=1)


def _pairs_within(
    nodes: Int[np.ndarray, " n"], rng: np.random.Generator, probability: float
) -> Int[np.ndarray, "M 2"]:
    """Each pair of different nodes with the given probability, no pair twice."""
    count = len(nodes) * (len(nodes) - 1) // 2
    chosen = rng.choice(count, rng.binomial(count, probability), replace=False)
    # pair number high (high - 1) / 2 + low, with low < high
    high = np.floor((1 + np.sqrt(8.0 * chosen + 1)) / 2).astype(np.int64)
    low = chosen - high * (high - 1) // 2
    return np.stack([nodes[low], nodes[high]], axis=1)


def _pairs_between(
    one: Int[np.ndarray, " n"],
    other: Int[np.ndarray, " m"],
    rng: np.random.Generator,
    probability: float,
) -> Int[np.ndarray, "M 2"]:
    count = len(one) * len(other)
    chosen = rng.choice(count, rng.binomial(count, probability), replace=False)
    return np.stack([one[chosen // len(other)], other[chosen % len(other)]], axis=1)


def _check(
    name: str, value: int | float, low: int | float, high: int | float = np.inf
) -> None:
    if not low <= value <= high:
        rule = (
            f"lie in [{low:g}, {high:g}]"
            if np.isfinite(high)
            else f"be at least {low:g}"
        )
        raise ValueError(f"{name} must {rule}, got {value:g}.")
