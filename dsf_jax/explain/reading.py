"""What a trained model learnt: filters of the nodes, their groups, and where they lie.

Everything starts from the weights β_{k,i} = γ_k θ_{k,i} of `dsf_jax.local_weights`, one
column per node. Clusters and maps need scikit-learn (`pip install dsf-jax[explain]`);
it is imported when called.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from dsf_jax.experiments.fitting import Fitted
from dsf_jax.filters import response
from dsf_jax.graph.graph import Graph
from dsf_jax.models.diversity import curve_spread
from dsf_jax.models.layers import Inputs
from dsf_jax.models.settings import HyperParams
from dsf_jax.models.spectral import Diverse, Params

METHODS = ("tsne", "pca")


class Filters(NamedTuple):
    """Filters of a trained model, on the host in float64."""

    gamma: Float[np.ndarray, " K1"]  # global weights; of the first channel if several
    theta: Float[np.ndarray, "K1 N"]  # local weights
    beta: Float[np.ndarray, "K1 N"]
    lam: Float[np.ndarray, " G"]  # grid on [0, 2]
    curves: Float[np.ndarray, "N G"]  # g_i(λ)
    shared: Float[np.ndarray, " G"]  # their mean, the filter of the mean weights

    @property
    def spread(self) -> float:
        """How much the curves differ between nodes, relative to the shared one."""
        return float(curve_spread(self.curves))


class Representatives(NamedTuple):
    """Clusters of the node-specific weights, the largest first."""

    cluster: Int[np.ndarray, " N"]
    centres: Float[np.ndarray, "K1 R"]
    sizes: Int[np.ndarray, " R"]


def read_filters(
    params: Params,
    inputs: Inputs,
    hparams: HyperParams,
    *,
    model: Diverse,
    num_points: int = 101,
) -> Filters:
    """Weights and response curves g_i(λ) = Σ_k β_{k,i} P_k(λ) of every node (Sec. 5.4).

    λ is an eigenvalue of I - op, with the operator that the model filters with.

    Args:
      params: trained parameters.
      inputs: from `Model.make_inputs`.
      hparams: settings they were trained with.
      model: the model.
      num_points: points of the grid on [0, 2].

    Returns:
      The filters.

    Example:
      >>> import jax
      >>> from dsf_jax import MODELS
      >>> edge, model = Graph.from_edges([(0, 1)], num_nodes=2), MODELS["dsf-bern-r"]
      >>> inputs = model.make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)))
      >>> key, hparams = jax.random.key(0), HyperParams()
      >>> params = model.init(key, inputs, hparams, num_classes=3)
      >>> read_filters(params, inputs, hparams, model=model).curves.shape
      (2, 101)
    """
    weights = model.local_weights(params, inputs, hparams)
    lam = jnp.linspace(0.0, 2.0, num_points, dtype=weights.beta.dtype)
    curves = _host(response(weights.beta, lam, model.basis(params, inputs, hparams)))
    return Filters(
        gamma=_host(weights.gamma),
        theta=_host(weights.theta),
        beta=_host(weights.beta),
        lam=_host(lam),
        curves=curves,
        shared=curves.mean(axis=0),
    )


def node_filters(fitted: Fitted, *, num_points: int = 101) -> Filters:
    """Weights and response curves of every node of a trained model.

    Args:
      fitted: from `dsf_jax.fit` or `dsf_jax.load`.
      num_points: points of the grid on [0, 2].

    Returns:
      The filters; `spread` says how much they differ between nodes.

    Raises:
      ValueError: if the model has no polynomial filter (GCN, GAT, ...).

    Example:
      >>> from dsf_jax import fit, regions
      >>> filters = node_filters(fit(regions(60), "dsf-gpr-r", epochs=3))
      >>> filters.beta.shape, filters.curves.shape
      ((11, 60), (60, 101))
    """
    model = fitted.model
    if not isinstance(model, Diverse):
        raise ValueError(
            f"fitted must be a model with polynomial filters, got "
            f"{type(model).__name__}; choose gpr, bern, jacobi, appnp or a DSF model."
        )
    return read_filters(
        fitted.params,
        fitted.inputs,
        fitted.hparams,
        model=model,
        num_points=num_points,
    )


def representatives(
    beta: Float[np.ndarray, "K1 N"], *, count: int = 5, seed: int = 0
) -> Representatives:
    """Groups of nodes with similar weights by k-means, and their centres (Sec. 5.4).

    Args:
      beta: weights of every node.
      count: number of groups; fewer if there are fewer different nodes.
      seed: of k-means.

    Returns:
      The groups.

    Raises:
      ValueError: if `count` is below 1.

    Example:
      >>> beta = np.asarray([[0.0, 0.1, 5.0, 0.2]])
      >>> groups = representatives(beta, count=2)
      >>> groups.cluster.tolist(), groups.sizes.tolist()
      ([0, 0, 1, 0], [3, 1])
    """
    from sklearn.cluster import KMeans

    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}; the paper draws 5.")
    count = min(count, len(np.unique(beta.T.round(9), axis=0)))
    found = KMeans(count, n_init=10, random_state=seed).fit(beta.T)
    sizes = np.bincount(found.labels_, minlength=count)
    order = np.argsort(-sizes, kind="stable")
    rank = np.argsort(order)
    return Representatives(
        cluster=rank[found.labels_],
        centres=found.cluster_centers_[order].T,
        sizes=sizes[order],
    )


def embed(
    beta: Float[np.ndarray, "K1 N"], *, method: str = "tsne", seed: int = 0
) -> Float[np.ndarray, "N 2"]:
    """The weights of every node as a point in the plane (Sec. 5.4).

    Args:
      beta: weights of every node.
      method: `tsne` as in the paper, or `pca`, which is faster and keeps distances.
      seed: of t-SNE.

    Returns:
      The points.

    Raises:
      ValueError: if the method is not known.

    Example:
      >>> beta = np.asarray([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]])
      >>> abs(embed(beta, method="pca")[:, 0]).round(6).tolist()
      [1.0, 0.0, 1.0]
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    centred = beta.T - beta.mean(axis=1)
    num_nodes = len(centred)
    # equal weights, as in a base model, have no map; few nodes have no perplexity
    if method == "pca" or num_nodes < 5 or np.ptp(centred, axis=0).max() < 1e-9:
        left, scale, _ = np.linalg.svd(centred, full_matrices=False)
        points = np.zeros((num_nodes, 2))
        points[:, : min(2, len(scale))] = (left * scale)[:, :2]
        return points
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (num_nodes - 1) / 3)
    tsne = TSNE(2, perplexity=perplexity, init="pca", random_state=seed)
    return tsne.fit_transform(centred).astype(np.float64)


def variance_share(
    beta: Float[np.ndarray, "K1 N"], groups: Int[np.ndarray, " N"]
) -> float:
    """Share of the variance of the weights that lies between groups of nodes.

        Σ_r n_r |β̄_r - β̄|² / Σ_i |β_i - β̄|²

    With G groups drawn at random it is (G - 1) / (N - 1) on average. NaN if all weights
    are equal.

    Args:
      beta: weights of every node.
      groups: group of each node, e.g. communities of the graph.

    Returns:
      The share, from 0 to 1.

    Example:
      >>> beta = np.asarray([[0.0, 0.0, 1.0, 1.0]])
      >>> variance_share(beta, np.asarray([0, 0, 1, 1]))
      1.0
    """
    _, index = np.unique(groups, return_inverse=True)
    centred = beta.T - beta.mean(axis=1)
    total = np.sum(centred**2)
    sums = np.zeros((index.max() + 1, len(beta)))
    np.add.at(sums, index, centred)
    between = np.sum(sums**2 / np.bincount(index)[:, None])
    return float(between / total) if total > 0 else float("nan")


def distance_correlation(
    graph: Graph,
    beta: Float[np.ndarray, "K1 N"],
    *,
    num_sources: int = 200,
    seed: int = 0,
) -> float:
    """Rank correlation of the distance of weights with the distance in the graph.

    Spearman's ρ of |β_i - β_j| and the number of hops from i to j, over the pairs of
    some nodes i with all nodes j that they reach.

    Args:
      graph: the graph; weights are not looked at.
      beta: weights of every node.
      num_sources: how many nodes i, drawn without replacement.
      seed: of the draw.

    Returns:
      ρ; NaN if one of the distances is constant.

    Example:
      >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)], num_nodes=4)
      >>> round(distance_correlation(path, np.asarray([[0.0, 1.0, 2.0, 3.0]])), 6)
      1.0
    """
    import scipy.stats  # half of the time of `import dsf_jax`, if it were above

    rng = np.random.Generator(np.random.PCG64(seed))
    count = min(num_sources, graph.num_nodes)
    sources = rng.choice(graph.num_nodes, count, replace=False)
    hops = scipy.sparse.csgraph.shortest_path(
        graph.to_scipy(), unweighted=True, directed=False, indices=sources
    )
    gaps = np.stack([np.linalg.norm(beta.T - beta[:, i], axis=1) for i in sources])
    is_pair = np.isfinite(hops) & (hops > 0)
    if np.ptp(hops[is_pair], axis=None) == 0 or np.ptp(gaps[is_pair]) == 0:
        return float("nan")
    return float(scipy.stats.spearmanr(hops[is_pair], gaps[is_pair]).statistic)


def _host(array: Any) -> Float[np.ndarray, "..."]:
    return np.asarray(array, dtype=np.float64)
