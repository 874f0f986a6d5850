"""RWPE: how probable it is that a random walk is back at its start (Appendix C.2).

Exact, from a unit column per node, which is quadratic; or from a sketch, random columns
instead, which costs the same number of products with the graph at any size.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float

from dsf_jax.graph.graph import Graph, normalise
from dsf_jax.graph.laplacian import NUM_COLUMNS, check_count
from dsf_jax.graph.products import RowProduct, num_threads

SKETCH_COLUMNS = 256

_GROUPS = 4  # of columns; their differences give the error
_BLOCK = 16  # columns at a time; of float32 a row is one line of the cache
_EXACT_WORK = 1e10  # about a minute on two cores
_MAX_TERMS = 2**24  # of a product of sparse matrices at a time


class WalkSketch(NamedTuple):
    """RWPE from a sketch, and how far it is from the exact one."""

    x: Float[np.ndarray, "N Fp"]
    # per power: root mean square over nodes of the standard error, divided by the
    # standard deviation between nodes; 0 where exact, inf where nodes do not differ
    errors: Float[np.ndarray, " Fp"]


def is_exact_affordable(graph: Graph) -> bool:
    """Whether exact RWPE takes a minute or less: to 26,000 nodes of degree 10.

    Example:
      >>> is_exact_affordable(Graph.from_edges([(0, 1)], num_nodes=2))
      True
    """
    # a product with the entries, and about four passes over the nodes
    per_column = graph.senders.shape[0] + 4 * graph.num_nodes
    return graph.num_nodes * per_column <= _EXACT_WORK


def random_walk_features(
    graph: Graph,
    *,
    num_powers: int = NUM_COLUMNS,
    block: int = 64,
    on_progress: Callable[[float], None] | None = None,
) -> Float[np.ndarray, "N Fp"]:
    """RWPE: probabilities that a random walk is back at its start (Appendix C.2).

        x_ij = [(A D^-1)^j]_ii = [Â^j]_ii,  j = 1..f_p        0 at isolated nodes

    Â is symmetric, so with Y_m = Â^m E for a block E of unit columns the even powers
    are squared column norms of Y_m and the odd ones inner products with Y_{m-1}: half
    as many products as powers, in O(N x block) memory.

    Args:
      graph: the graph; edges are chosen in proportion to their weights.
      num_powers: number of columns f_p, at least 1.
      block: nodes per block, at least 1; 64 was the fastest at 14,000 and 20,000 nodes.
      on_progress: called with the finished share of the nodes after each block.

    Returns:
      One row per node, column j - 1 for power j.

    Raises:
      ValueError: if `num_powers` or `block` is below 1.

    Example:
      >>> triangle = Graph.from_edges([(0, 1), (1, 2), (2, 0)], num_nodes=3)
      >>> random_walk_features(triangle, num_powers=3)[0].round(2).tolist()
      [0.0, 0.5, 0.25]
    """
    check_count("num_powers", num_powers)
    check_count("block", block)
    a_hat = normalise(graph.to_scipy())
    x = np.empty((graph.num_nodes, num_powers))

    def fill(start: int) -> int:
        rows = x[start : start + block]
        last = np.zeros((graph.num_nodes, len(rows)))
        np.fill_diagonal(last[start:], 1.0)
        for j in range(0, num_powers, 2):
            y = a_hat @ last
            rows[:, j] = np.einsum("nb,nb->b", last, y)
            rows[:, j + 1 : j + 2] = np.einsum("nb,nb->b", y, y)[:, None]
            last = y
        return start + len(rows)

    with ThreadPoolExecutor(num_threads()) as pool:
        for num_done in pool.map(fill, range(0, graph.num_nodes, block)):
            if on_progress is not None:
                on_progress(num_done / graph.num_nodes)
    return x


def sketch_random_walks(
    graph: Graph,
    *,
    num_powers: int = NUM_COLUMNS,
    num_columns: int = SKETCH_COLUMNS,
    seed: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> WalkSketch:
    """RWPE from random columns: K products for each, in O(N x num_powers) memory.

    Powers 1 to 3 are exact: 0, Σ_j â_ij², and triangles. For the others let Y_m = Â^m G
    for columns G of random signs: as E[G Gᵀ] = I,

        [Â^2m]_ii = E |row i of Y_m|²     [Â^(2m+1)]_ii = E <rows i of Y_m, Y_{m+1}>

    What is known is not estimated:

    - eigenvectors with eigenvalue 1 and -1, which the components tell, are taken out
      of G; their share is added at the end;
    - odd powers are 0 in bipartite components;
    - node i's own entry of row m is power m: in odd powers and power 4 what G makes of
      it is replaced by what is already known of lower powers. On Pubmed this halves
      the error of powers 5 and 7; it does not help the other even ones.

    Estimates below 0 become 0. The relative error of an even power is at most
    √(2 / num_columns). An odd one has an absolute error, which may be far larger than
    a rare return itself: `errors` tells. It is found from four groups of columns.

    Args:
      graph: the graph; edges are chosen in proportion to their weights.
      num_powers: number of columns f_p, at least 1.
      num_columns: random columns, a multiple of 64. Errors fall with its square root.
      seed: of the random columns, at least 0.
      on_progress: called with the finished share of the columns, 16 at a time.

    Returns:
      The features, column j - 1 for power j, and their errors.

    Raises:
      ValueError: if a number breaks its rule.

    Example:
      >>> ring = Graph.from_edges([(i, (i + 1) % 8) for i in range(8)], num_nodes=8)
      >>> sketch = sketch_random_walks(ring, num_powers=3, num_columns=64)
      >>> sketch.x[0].round(9).tolist(), sketch.errors.tolist()
      ([0.0, 0.5, 0.0], [0.0, 0.0, 0.0])
    """
    check_count("num_powers", num_powers)
    check_columns(num_columns)
    adjacency = graph.to_scipy()
    a_hat = normalise(adjacency)
    known = _known_part(adjacency)
    exact = np.stack([0 * known.power(1), _second_power(a_hat), _third_power(a_hat)])
    for j in range(len(exact)):
        exact[j] -= known.power(j + 1)
    total, squares = np.zeros((num_powers, graph.num_nodes)), np.zeros(num_powers)
    num_blocks = num_columns // (_GROUPS * _BLOCK)
    # rounding to float32 is far below the error of a sketch
    with RowProduct(a_hat.astype(np.float32)) as product:
        for group in range(_GROUPS):
            sums = _Sums.zero(num_powers, graph.num_nodes)
            for block in range(num_blocks):
                rng = np.random.Generator(np.random.PCG64([seed, group, block]))
                sums.add_block(product, known, rng)
                if on_progress is not None:
                    done = group * num_blocks + block + 1
                    on_progress(done / (_GROUPS * num_blocks))
            found = sums.powers(exact, num_blocks * _BLOCK)
            found[::2, known.is_bipartite] = 0
            total += found
            squares += np.einsum("jn,jn->j", found, found)
            del sums, found  # before the next ones are made

    total /= _GROUPS
    spread = squares / _GROUPS - np.einsum("jn,jn->j", total, total)
    variance = np.maximum(spread, 0) / (_GROUPS - 1) / graph.num_nodes
    variance[: len(exact)] = 0
    for j in range(num_powers):
        total[j] += known.power(j + 1)
        if j % 2 == 0:
            total[j, known.is_bipartite] = 0
    between = np.maximum(total.var(axis=1) - variance, 0)
    ratio = np.full(num_powers, np.inf)
    np.divide(variance, between, where=between > 0, out=ratio)
    ratio[variance == 0] = 0
    return WalkSketch(np.maximum(total, 0, out=total).T, np.sqrt(ratio))


class _Sums(NamedTuple):
    """Sums over columns of a group."""

    rows: Float[np.ndarray, "Fp N"]  # <Y_m, Y_m> and <Y_m, Y_{m+1}>, by power
    own: Float[np.ndarray, "M N"]  # <Y_m, G>, by m

    @staticmethod
    def zero(num_powers: int, num_nodes: int) -> "_Sums":
        num_products = (num_powers + 1) // 2
        return _Sums(
            np.zeros((num_powers, num_nodes)), np.zeros((num_products + 1, num_nodes))
        )

    def add_block(
        self, product: RowProduct, known: "_KnownPart", rng: np.random.Generator
    ) -> None:
        num_powers, num_nodes = self.rows.shape
        bits = rng.integers(2, size=(num_nodes, _BLOCK), dtype=np.int8)
        signs = 2 * bits.astype(np.float32) - 1
        last = known.remove_from(signs)
        for m in range(1, len(self.own)):
            y = product(last)
            self.own[m] += np.einsum("nb,nb->n", signs, y)
            self.rows[2 * m - 2] += np.einsum("nb,nb->n", last, y)
            if 2 * m <= num_powers:
                self.rows[2 * m - 1] += np.einsum("nb,nb->n", y, y)
            last = y

    def powers(
        self, exact: Float[np.ndarray, "3 N"], num_columns: int
    ) -> Float[np.ndarray, "Fp N"]:
        """Powers without the known part, the first three exact; own entries mended."""
        rows, own = self.rows, self.own
        rows /= num_columns
        own /= num_columns
        rows[: len(exact)] = exact[: len(rows)]
        for power in range(len(exact) + 1, len(rows) + 1):
            if power % 2 == 0 and power > len(exact) + 1:
                continue
            low, high = power // 2, (power + 1) // 2
            own_low, own_high = rows[low - 1], rows[high - 1]
            rows[power - 1] -= own_low * (own[high] - own_high)
            rows[power - 1] -= own_high * (own[low] - own_low)
        return rows


class _KnownPart(NamedTuple):
    """Eigenvectors of Â with eigenvalue 1 and -1, one column per component."""

    plus: sp.csr_array  # [N, c], unit columns D^1/2 1_c
    minus: sp.csr_array  # [N, c], the same with a sign per side if c is bipartite
    is_bipartite: Bool[np.ndarray, " N"]

    def remove_from(self, x: Float[np.ndarray, "N w"]) -> Float[np.ndarray, "N w"]:
        for vectors in (self.plus, self.minus):
            x = x - (vectors @ (vectors.T @ x)).astype(x.dtype)
        return x

    def power(self, exponent: int) -> Float[np.ndarray, " N"]:
        """Diagonal of the power of what is removed."""
        plus, minus = (np.square(v.data) for v in (self.plus, self.minus))
        return plus + (-1) ** exponent * minus


def _known_part(adjacency: sp.csr_array) -> _KnownPart:
    num_nodes = adjacency.shape[0]
    # (i, s) and (j, 1 - s) are joined if i and j are: sides that stay apart are two
    cover = sp.block_array([[None, adjacency], [adjacency, None]], format="csr")
    _, sides = sp.csgraph.connected_components(cover, directed=False)
    this, other = sides[:num_nodes], sides[num_nodes:]
    count, labels = sp.csgraph.connected_components(adjacency, directed=False)
    degrees = adjacency.sum(axis=1)
    volumes = np.bincount(labels, weights=degrees)[labels]
    roots = np.sqrt(np.divide(degrees, volumes, where=volumes > 0, out=0 * degrees))
    place = (labels, np.arange(num_nodes + 1))
    signed = roots * np.sign(other - this)
    plus, minus = (
        sp.csr_array((vector, *place), shape=(num_nodes, count))
        for vector in (roots, signed)
    )
    return _KnownPart(plus, minus, is_bipartite=this != other)


def _second_power(a_hat: sp.csr_array) -> Float[np.ndarray, " N"]:
    return a_hat.power(2).sum(axis=1)


def _third_power(a_hat: sp.csr_array) -> Float[np.ndarray, " N"]:
    """Twice the weights of the triangles of each node.

    Edges go from the node with fewer neighbours to that with more, so that no node has
    more than √(2 E) and hubs cost no more than others. Each triangle is found where its
    first node meets its last, and again where the middle one does.
    """
    rank = np.argsort(np.argsort(np.diff(a_hat.indptr), kind="stable"))
    row, column = a_hat.tocoo().coords
    up = rank[row] < rank[column]
    forward = sp.csr_array((a_hat.data[up], (row[up], column[up])), shape=a_hat.shape)
    first, last = _masked_sums(forward, forward, forward)
    middle, _ = _masked_sums(sp.csr_array(forward.T), forward, forward)
    return 2 * (first + middle + last)


def _masked_sums(
    left: sp.csr_array, right: sp.csr_array, mask: sp.csr_array
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Sums over rows and columns of (left @ right) * mask, some rows at a time."""
    terms = np.diff(right.indptr)[left.indices].cumsum(dtype=np.int64)
    before = np.concatenate([[0], terms])[left.indptr]
    cuts = np.searchsorted(before, np.arange(0, before[-1], _MAX_TERMS))
    cuts = np.unique([0, *cuts, left.shape[0]])
    rows, columns = np.zeros(left.shape[0]), np.zeros(left.shape[0])
    for start, end in zip(cuts[:-1], cuts[1:], strict=True):
        part = (left[start:end] @ right).multiply(mask[start:end])
        rows[start:end] = part.sum(axis=1)
        columns += part.sum(axis=0)
    return rows, columns


def check_columns(num_columns: int) -> None:
    """Refuse columns of a sketch that do not make equal groups.

    Example:
      >>> check_columns(100)
      Traceback (most recent call last):
      ValueError: num_columns must be a multiple of 64 above 0, got 100; take 256.
    """
    if num_columns < 1 or num_columns % (_GROUPS * _BLOCK):
        raise ValueError(
            f"num_columns must be a multiple of {_GROUPS * _BLOCK} above 0, got "
            f"{num_columns}; take {SKETCH_COLUMNS}."
        )
