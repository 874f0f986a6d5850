"""Products of a sparse matrix with dense columns on the host, by all cores."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

_MAX_THREADS = 8  # each may hold arrays of its own


class RowProduct:
    """Products with a sparse matrix, its rows shared out to threads.

    Every row is summed by one thread, so the result does not depend on their number.

    Example:
      >>> with RowProduct(sp.csr_array([[0.0, 2.0], [2.0, 0.0]])) as product:
      ...     product(np.ones((2, 1))).tolist()
      [[2.0], [2.0]]
    """

    def __init__(self, matrix: sp.csr_array) -> None:
        """Cut the matrix in parts with equally many entries."""
        self._num_rows, threads = matrix.shape[0], num_threads()
        shares = np.linspace(0, matrix.nnz, threads + 1)[1:-1]
        cuts = [0, *np.searchsorted(matrix.indptr, shares), self._num_rows]
        self._parts = [
            (slice(start, end), matrix[start:end])
            for start, end in zip(cuts[:-1], cuts[1:], strict=True)
        ]
        self._pool = ThreadPoolExecutor(threads)

    def __enter__(self) -> "RowProduct":
        """Threads live until the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    def __call__(self, x: Float[np.ndarray, "N w"]) -> Float[np.ndarray, "N w"]:
        """The product."""
        result = np.empty((self._num_rows, x.shape[1]), dtype=x.dtype)

        def fill(part: tuple[slice, sp.csr_array]) -> None:
            result[part[0]] = part[1] @ x

        list(self._pool.map(fill, self._parts))  # scipy's product frees the GIL
        return result


def num_threads() -> int:
    """Threads for work on the host: the cores, but not many.

    Example:
      >>> 1 <= num_threads() <= 8
      True
    """
    return min(os.cpu_count() or 1, _MAX_THREADS)
