"""Generated graphs: their stories, counted edge by edge."""

import numpy as np
import pytest

from dsf_jax import load_dataset, regions
from dsf_jax.data import csbm, region_of
from dsf_jax.graph import edge_homophily


def test_default_is_the_embedded_data_set():
    one, other = regions(), load_dataset("regions")
    assert one.name == other.name == "regions"
    np.testing.assert_array_equal(one.features, other.features)
    np.testing.assert_array_equal(one.graph.senders, other.graph.senders)
    assert one.sources == ()
    assert not np.array_equal(one.features, regions(seed=1).features)


def test_default_is_the_same_everywhere():
    dataset = regions()
    assert dataset.graph.num_edges == 1745  # PCG64 gives the same on every platform
    np.testing.assert_allclose(
        dataset.features.sum(dtype=np.float64), 84.465626, rtol=1e-6
    )


@pytest.mark.parametrize("num_nodes", [60, 601])
def test_regions_tell_their_story(num_nodes):
    dataset = regions(num_nodes, num_bridges=9, noise=0.0, degree=4, seed=3)
    region, labels = region_of(num_nodes), dataset.labels
    is_cold = ~np.asarray(dataset.features).any(axis=1)
    assert set(region[is_cold]) == {0, 1}
    assert abs(is_cold[region < 2].mean() - 0.5) < 0.02
    bridges = 0
    for i, j in zip(dataset.graph.senders, dataset.graph.receivers, strict=True):
        if region[i] != region[j]:
            bridges += 1
        elif region[i] < 2:
            assert is_cold[i] != is_cold[j]  # what a cold node knows is at odd hops
            assert (labels[i] == labels[j]) == (region[i] == 0)
    assert 0 < bridges <= 2 * 9


def test_odd_hops_say_opposite_things_and_even_hops_the_same():
    dataset = regions(1200, signal=5.0, num_bridges=0)
    adjacency = dataset.graph.to_scipy()
    features = np.asarray(dataset.features, dtype=np.float64)
    sign = 2.0 * dataset.labels - 1.0
    region, is_cold = region_of(1200), ~features.any(axis=1)
    mean = (sign[:, None] * features)[~is_cold].mean(axis=0)

    def agreement(hops, nodes):
        reached = features
        for _ in range(hops):
            reached = adjacency @ reached
        return np.mean(np.sign(reached @ mean)[nodes] == sign[nodes])

    cold = [is_cold & (region == r) for r in (0, 1)]
    warm = [~is_cold & (region == r) for r in (0, 1)]
    assert agreement(1, cold[0]) > 0.9
    assert agreement(1, cold[1]) < 0.1
    assert agreement(3, cold[1]) < 0.1
    assert all(agreement(2, nodes) > 0.9 for nodes in warm)
    assert not (adjacency @ (adjacency @ features))[cold[0]].any()


def test_noise_is_the_share_of_wrong_links():
    dataset = regions(3000, num_bridges=0, noise=0.2)
    region = region_of(3000)
    senders, receivers = map(np.asarray, dataset.graph.to_scipy().nonzero())
    for r, expected in ((0, 0.8), (1, 0.2), (2, 0.5)):
        inside = (region[senders] == r) & (region[receivers] == r)
        equal = dataset.labels[senders] == dataset.labels[receivers]
        assert abs(equal[inside].mean() - expected) < 0.03


@pytest.mark.parametrize("contrast", [0.0, 0.5, 1.0])
def test_contrast_is_how_much_region_1_differs_from_region_0(contrast):
    dataset = regions(3000, contrast=contrast, noise=0.1, num_bridges=0)
    one = np.asarray(dataset.graph.senders)
    is_equal = (
        dataset.labels[one] == dataset.labels[np.asarray(dataset.graph.receivers)]
    )
    shares = [is_equal[region_of(3000)[one] == region].mean() for region in (0, 1)]
    np.testing.assert_allclose(shares, [0.9, 0.9 - 0.8 * contrast], atol=0.02)


@pytest.mark.parametrize("phi", [-1.0, -0.5, 0.0, 0.5, 1.0])
def test_csbm_meets_its_formulas(phi):
    num_nodes, num_features, degree, epsilon = 2000, 400, 5.0, 3.25
    dataset = csbm(num_nodes, phi=phi, num_features=num_features)
    strength = np.sqrt(1 + epsilon) * np.sin(np.pi * phi / 2)
    mean_degree = 2 * dataset.graph.num_edges / num_nodes
    assert abs(mean_degree - degree) < 0.3
    homophily = edge_homophily(dataset.graph, dataset.labels)
    assert abs(homophily - (1 + strength / np.sqrt(degree)) / 2) < 0.03
    # the class means are ±√(μ/N) u apart, u of length about 1
    features = np.asarray(dataset.features, dtype=np.float64)
    sign = 2.0 * dataset.labels - 1.0
    mean = (sign[:, None] * features).mean(axis=0)
    squared = mean @ mean - 1 / num_nodes  # less what noise adds
    expected = np.sqrt(num_nodes / num_features * (1 + epsilon)) / num_nodes
    expected *= np.cos(np.pi * phi / 2)
    assert abs(squared - expected) < 0.15 * expected + 1e-4
    np.testing.assert_allclose(features.std(), num_features**-0.5, rtol=0.05)


def test_csbm_lists_no_pair_twice():
    cleaning = csbm(300, phi=0.9, num_features=10).graph.cleaning
    assert int(cleaning.duplicates) == 0
    assert int(cleaning.self_loops) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regions(30), "num_nodes must be at least 60, got 30"),
        (lambda: regions(degree=1), "degree must be at least 2"),
        (lambda: regions(noise=0.7), "noise must lie in"),
        (lambda: regions(contrast=1.1), "contrast must lie in"),
        (lambda: csbm(phi=1.5), "phi must lie in"),
        (lambda: csbm(phi=0.5, degree=4.0), "degree must be at least 4.25"),
    ],
)
def test_impossible_numbers_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
