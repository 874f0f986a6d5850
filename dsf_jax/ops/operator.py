"""Products with a graph operator: `propagate(op, x)` is op @ x.

Half of the time of an epoch is spent here, so the product is one function with its own
gradient rule (op is symmetric: the cotangent is another product), its own batching rule
(B runs are one product on [N, B * C]) and four kernels behind it.
"""

import warnings
from importlib.metadata import version
from typing import Any, Literal, get_args

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import Array
from jaxtyping import Float, Int

from dsf_jax.graph.graph import Graph, check_graph, normalise
from dsf_jax.ops.kernels import Csr, Twins, csr_matmul, find_twins, multiply_twins
from dsf_jax.ops.lanes import fold_lanes
from dsf_jax.ops.nodes import Halo, fetch_rows

Kernel = Literal["segment", "csr", "twins", "dense"]

# Measured crossovers (docs/decisions.md). On a CPU the CSR kernel wins until one entry
# in five is not zero, and that of twins where they save a quarter of the entries.
# Accelerators are not measured: their dense product is taken while the matrix stays
# small (64 MB in float32 at 4,096 nodes).
CPU_DENSE_FILL = 1 / 5
CPU_TWIN_SHARE = 3 / 4
ACCELERATOR_DENSE_NODES = 4_096
# The contended float32 scatter-add of these versions is very slow on NVIDIA devices
# (openxla issue 46225): there the dense product, free of scatters, reaches further.
SLOW_SCATTER_JAXLIB = ("0.10.2", "0.11.0")
SLOW_SCATTER_DENSE_NODES = 16_384
_JAXLIB = version("jaxlib")


@flax.struct.dataclass
class Operator:
    """Symmetric N x N operator in CSR order, constant under differentiation.

    Built by `a_hat`, `a_tilde`, `a_plus_i`, `l_hat`, or `Operator.from_scipy` for one
    of your own.

    Example:
      >>> import scipy.sparse as sp
      >>> op = Operator.from_scipy(sp.eye_array(3), kernel="segment")
      >>> propagate(op, jnp.ones((3, 1))).tolist()
      [[1.0], [1.0], [1.0]]
    """

    __no_type_check__ = True  # JAX fills pytrees with tracers, flags, specs ...

    weights: Float[Array, " E"]
    senders: Int[Array, " E"]  # column of each entry
    receivers: Int[Array, " E"]  # row of each entry, non-decreasing
    indptr: Int[Array, " N1"]  # entries of row i are indptr[i]:indptr[i + 1]
    dense: Float[Array, "N N"] | None  # the same matrix, for the dense kernel only
    twins: Twins | None  # and by groups of nodes, for the kernel of that name
    kernel: Kernel = flax.struct.field(pytree_node=False)
    halo: Halo | None = None  # where rows are shared out over devices

    @property
    def num_nodes(self) -> int:
        """Number of rows N."""
        return self.indptr.shape[0] - 1

    @classmethod
    def from_scipy(
        cls, matrix: Any, *, kernel: Kernel | Literal["auto"] = "auto"
    ) -> "Operator":
        """Operator from a symmetric scipy sparse matrix.

        Args:
          matrix: square, symmetric, finite; at least one row.
          kernel: how `propagate` computes the product. `"segment"` gathers, scales and
            sums sorted segments on any device; `"csr"` calls the native CPU kernel;
            `"twins"` does so after joining nodes with the same neighbours;
            `"dense"` stores the full matrix; `"auto"` chooses by device, rows and
            entries, never by columns, so results do not depend on the batch.

        Returns:
          The operator, with `kernel` resolved to one of the four.

        Raises:
          ValueError: if the matrix is not square, symmetric and finite, or the kernel
            is not known.
        """
        csr = sp.csr_array(matrix, dtype=np.float64)
        if csr.shape[0] != csr.shape[1] or csr.shape[0] == 0:
            raise ValueError(
                f"matrix must be square with at least one row, got shape {csr.shape}; "
                "rows and columns are the same nodes."
            )
        csr.sum_duplicates()
        if not np.isfinite(csr.data).all():
            raise ValueError(
                f"matrix must be finite, got {csr.data[~np.isfinite(csr.data)][0]}; "
                "check the weights and degrees it was made from."
            )
        gap = abs(csr - csr.T)
        if gap.nnz and gap.max() > 1e-12 * abs(csr).max():
            raise ValueError(
                f"matrix must be symmetric, got one that differs from its transpose by "
                f"{gap.max():.3g}; the gradient rule multiplies by the same matrix, so "
                "use (matrix + matrix.T) / 2."
            )
        num_nodes = csr.shape[0]
        resolved = resolve_kernel(kernel, num_nodes=num_nodes, num_entries=csr.nnz)
        twins = None
        if resolved == "twins" or (kernel, resolved) == ("auto", "csr"):
            twins = find_twins(csr)
            if kernel == "auto" and twins.num_entries < CPU_TWIN_SHARE * csr.nnz:
                resolved = "twins"
        receivers = np.repeat(np.arange(num_nodes), np.diff(csr.indptr))
        return cls(
            weights=jnp.asarray(csr.data),
            senders=jnp.asarray(csr.indices, dtype=jnp.int32),
            receivers=jnp.asarray(receivers, dtype=jnp.int32),
            indptr=jnp.asarray(csr.indptr, dtype=jnp.int32),
            dense=jnp.asarray(csr.toarray()) if resolved == "dense" else None,
            twins=twins if resolved == "twins" else None,
            kernel=resolved,
        )

    def to_scipy(self) -> sp.csr_array:
        """The matrix on the host, in the precision of the operator."""
        parts = (self.weights, self.senders, self.indptr)
        shape = (self.num_nodes, self.num_nodes)
        return sp.csr_array(tuple(np.asarray(part) for part in parts), shape=shape)

    def to_dense(self) -> Float[np.ndarray, "N N"]:
        """The full matrix on the host: for tests and small graphs."""
        return self.to_scipy().toarray()


def a_hat(graph: Graph, *, kernel: Kernel | Literal["auto"] = "auto") -> Operator:
    """Normalised adjacency (Sec. 3).

        Â = D^-1/2 A D^-1/2        row and column of an isolated node are 0

    Example:
      >>> path = Graph.from_edges([(0, 1), (1, 2)], num_nodes=3)
      >>> print(a_hat(path).to_dense().round(3))
      [[0.    0.707 0.   ]
       [0.707 0.    0.707]
       [0.    0.707 0.   ]]
    """
    check_graph(graph)
    return Operator.from_scipy(normalise(graph.to_scipy()), kernel=kernel)


def a_tilde(graph: Graph, *, kernel: Kernel | Literal["auto"] = "auto") -> Operator:
    """Normalised adjacency with self-loops, as the authors' code propagates.

        Ã = (D + I)^-1/2 (A + I) (D + I)^-1/2        an isolated node keeps its signal

    Example:
      >>> edgeless = Graph.from_edges([], num_nodes=2)
      >>> a_tilde(edgeless).to_dense().tolist()
      [[1.0, 0.0], [0.0, 1.0]]
    """
    return Operator.from_scipy(normalise(_with_loops(graph)), kernel=kernel)


def a_plus_i(graph: Graph, *, kernel: Kernel | Literal["auto"] = "auto") -> Operator:
    """Adjacency with self-loops, not normalised: a node adds its neighbours to itself.

        A + I

    Example:
      >>> path = Graph.from_edges([(0, 1), (1, 2)], num_nodes=3)
      >>> print(a_plus_i(path).to_dense())
      [[1. 1. 0.]
       [1. 1. 1.]
       [0. 1. 1.]]
    """
    return Operator.from_scipy(_with_loops(graph), kernel=kernel)


def l_hat(graph: Graph, *, kernel: Kernel | Literal["auto"] = "auto") -> Operator:
    """Normalised Laplacian (Sec. 3), spectrum in [0, 2].

        L̂ = I - Â

    Example:
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> l_hat(edge).to_dense().tolist()
      [[1.0, -1.0], [-1.0, 1.0]]
    """
    check_graph(graph)
    identity = sp.eye_array(graph.num_nodes)
    return Operator.from_scipy(identity - normalise(graph.to_scipy()), kernel=kernel)


def check_operator(op: Any) -> None:
    """Refuse what is no `Operator`, such as a matrix or a graph.

    Example:
      >>> check_operator(np.eye(2))
      Traceback (most recent call last):
      TypeError: op must be an Operator, got ndarray; use a_hat(graph), or
      Operator.from_scipy(scipy.sparse.csr_array(matrix)) for one of your own.
    """
    if not isinstance(op, Operator):
        raise TypeError(
            f"op must be an Operator, got {type(op).__name__}; use a_hat(graph), or "
            "Operator.from_scipy(scipy.sparse.csr_array(matrix)) for one of your own."
        )


def propagate(op: Operator, x: Float[Array, "N C"]) -> Float[Array, "N C"]:
    """Product op @ x, in the dtype of x.

    The rules around the product:

    - gradient: op is symmetric and constant, so the cotangent is `propagate(op, g)`; to
      any order in reverse mode, no residuals. The gradient with respect to op is zero.
    - `jax.vmap`: a batch [B, N, C] is one product on [N, B * C], nested batches too.
    - forward mode (`jax.jvp`, `jax.jacfwd`) is not supported and raises a `TypeError`;
      use `jax.vjp` or `jax.jacrev`.

    Args:
      op: from `a_hat`, `a_tilde`, `a_plus_i`, `l_hat` or `Operator.from_scipy`.
      x: a signal on the nodes, one column per channel.

    Returns:
      The propagated signal.

    Raises:
      TypeError: if x is not a floating array.
      ValueError: if x has not one row per node.

    Example:
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> propagate(a_hat(edge), jnp.asarray([[1.0], [2.0]])).tolist()
      [[2.0], [1.0]]
    """
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(
            f"x must be a floating array, got dtype {x.dtype}; cast it with "
            ".astype(float)."
        )
    if x.ndim != 2 or x.shape[0] != op.num_nodes:
        raise ValueError(
            f"x must have shape [{op.num_nodes}, C], one row per node, got "
            f"{list(x.shape)}; write a single channel as x[:, None]."
        )
    return _propagate(op, x)


def propagate_lanes(op: Operator, x: Float[Array, "N L C"]) -> Float[Array, "N L C"]:
    """Products of all lanes of a signal, laid out as in `dsf_jax.ops.lanes`, as one.

    Without the rules of `propagate`: for functions that have their own.

    Example:
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> propagate_lanes(a_hat(edge), jnp.asarray([[[1.0]], [[2.0]]])).tolist()
      [[[2.0]], [[1.0]]]
    """
    return _multiply(op, x.reshape(x.shape[0], -1)).reshape(x.shape)


def _multiply(op: Operator, x: Float[Array, "N C"]) -> Float[Array, "N C"]:
    if op.halo is not None:
        x = fetch_rows(op.halo, x)
    match op.kernel:
        case "segment":
            messages = op.weights.astype(x.dtype)[:, None] * x[op.senders]
            return jax.ops.segment_sum(
                messages, op.receivers, op.num_nodes, indices_are_sorted=True
            )
        case "csr":
            return csr_matmul(Csr(op.weights, op.senders, op.indptr), x)
        case "twins":
            assert op.twins is not None
            return multiply_twins(op.twins, x)
        case "dense":
            assert op.dense is not None
            # default precision would round to bfloat16 or TF32 on accelerators
            return jnp.matmul(op.dense.astype(x.dtype), x, precision="highest")


_propagate = jax.custom_vjp(fold_lanes(_multiply, lane_axes=(None, 1), out_axes=1))
_propagate.defvjp(
    lambda op, x: (_propagate(op, x), op),
    lambda op, g: (None, _propagate(op, g)),  # symmetric
)


def resolve_kernel(
    kernel: Kernel | Literal["auto"], *, num_nodes: int, num_entries: int
) -> Kernel:
    """Kernel that `"auto"` stands for on the default device; others stay as they are.

    Whether a graph has enough twins is not looked at here.

    Example:
      >>> resolve_kernel("segment", num_nodes=4, num_entries=6)
      'segment'
    """
    if kernel != "auto":
        if kernel not in get_args(Kernel):
            raise ValueError(
                f"kernel must be one of {', '.join(get_args(Kernel))} or auto, got "
                f"{kernel!r}; auto suits most graphs."
            )
        return kernel
    backend = jax.default_backend()
    if backend == "cpu":
        return "dense" if num_entries > CPU_DENSE_FILL * num_nodes**2 else "csr"
    dense_nodes = ACCELERATOR_DENSE_NODES
    if has_slow_scatter(backend, _JAXLIB):
        dense_nodes = SLOW_SCATTER_DENSE_NODES
        if num_nodes > dense_nodes:
            warnings.warn(
                f"jaxlib {_JAXLIB} sums segments very slowly on this "
                "device (openxla issue 46225); upgrade jaxlib to 0.11.1 or later.",
                stacklevel=2,
            )
    return "dense" if num_nodes <= dense_nodes else "segment"


def has_slow_scatter(backend: str, jaxlib_version: str) -> bool:
    """Whether segment sums are known to be very slow there (openxla issue 46225).

    Example:
      >>> has_slow_scatter("gpu", "0.11.0"), has_slow_scatter("cpu", "0.11.0")
      (True, False)
    """
    return backend in ("gpu", "cuda") and jaxlib_version in SLOW_SCATTER_JAXLIB


OPERATORS = {"a_hat": a_hat, "a_tilde": a_tilde, "a_plus_i": a_plus_i}
"""What a model may propagate on, by name: Â, Ã or A + I."""


def _with_loops(graph: Graph) -> sp.csr_array:
    check_graph(graph)
    return sp.csr_array(graph.to_scipy() + sp.eye_array(graph.num_nodes))
