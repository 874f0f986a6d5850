"""Readers: small files by hand, and bytes that must be refused."""

import io
import os
import pickle
import struct
import zipfile
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from dsf_jax.data.formats import (
    read_csr_npz,
    read_geom_gcn,
    read_musae,
    read_npz,
    read_planetoid,
)


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def integer(value):
    return b"J" + struct.pack("<i", value)


def string(value):
    return b"T" + struct.pack("<i", len(value)) + value


def array(values, dtype):
    """An array as NumPy under Python 2 pickled it (protocol 2), opcode by opcode."""
    values = np.asarray(values, dtype=dtype)
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n"
    empty += integer(0) + b"\x85" + string(b"b") + b"tR"
    kind = b"cnumpy\ndtype\n(" + string(dtype.encode()) + integer(0) + integer(1)
    kind += b"tR(" + integer(3) + string(b"<") + b"NNN" + 2 * integer(-1)
    kind += integer(0) + b"tb"
    shape = b"(" + b"".join(map(integer, values.shape)) + b"t"
    data = b"\x89" + string(values.tobytes())
    return empty + b"(" + integer(1) + shape + kind + data + b"tb"


def csr(dense):
    matrix = sp.csr_array(np.asarray(dense, dtype="f4"))
    state = {
        b"_shape": b"(" + b"".join(map(integer, matrix.shape)) + b"t",
        b"data": array(matrix.data, "f4"),
        b"indices": array(matrix.indices, "i4"),
        b"indptr": array(matrix.indptr, "i4"),
        b"maxprint": integer(50),
    }
    items = b"".join(string(key) + value for key, value in state.items())
    return b"cscipy.sparse.csr\ncsr_matrix\n)\x81}(" + items + b"ub"


def neighbour_lists(lists):
    made = b"ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R("
    for node, ends in lists.items():
        made += integer(node) + b"](" + b"".join(map(integer, ends)) + b"e"
    return made + b"u"


def pickled(body):
    return b"\x80\x02" + body + b"."


GEOM_GCN = {
    "out1_graph_edges.txt": b"id\tid\n0\t1\n1\t0\n2\t2\n2\t1\n",
    "out1_node_feature_label.txt": b"node_id\tfeature\tlabel\n"
    b"1\t0,0,0\t1\n0\t1,0,1\t0\n2\t0,1,0\t2\n",
}
MUSAE = {
    "musae_DE_edges.csv": b"from,to\n0,2\n1,2\n",
    "musae_DE_features.json": b'{"2": [9, 4], "0": [4, 4], "1": []}',
    "musae_DE_target.csv": b"id,days,mature,views,partner,new_id\n"
    b"70,1,True,5,False,2\n71,1,False,5,True,0\n72,1,True,5,True,1\n",
}
# nodes 0, 1 train; 2 is known too; test rows are 5, 3 in this order; 4 is skipped
PLANETOID = {
    "ind.tiny.x": pickled(csr([[1, 0], [0, 1]])),
    "ind.tiny.y": pickled(array([[1, 0], [0, 1]], "i4")),
    "ind.tiny.tx": pickled(csr([[0, 3], [4, 0]])),
    "ind.tiny.ty": pickled(array([[0, 1], [1, 0]], "i4")),
    "ind.tiny.allx": pickled(csr([[1, 0], [0, 1], [2, 2]])),
    "ind.tiny.ally": pickled(array([[1, 0], [0, 1], [1, 0]], "i4")),
    "ind.tiny.graph": pickled(
        neighbour_lists({0: [1, 1], 1: [0], 2: [2, 3], 3: [2], 4: [], 5: [0]})
    ),
    "ind.tiny.test.index": b"5\n3\n",
}
EYE = sp.eye_array(3, format="csr")
CSR_NPZ = {
    "some.npz": npz(
        adj_data=np.ones(2),
        adj_indices=[1, 2],
        adj_indptr=[0, 1, 2, 2],
        adj_shape=[3, 3],
        attr_data=EYE.data,
        attr_indices=EYE.indices,
        attr_indptr=EYE.indptr,
        attr_shape=[3, 3],
        labels=[0, 1, 1],
        names=np.asarray(["a", None], dtype=object),  # left out, not unpickled
    )
}
NPZ_ARRAYS = {
    "edges": [[0, 1], [2, 1]],
    "node_features": np.asfortranarray([[2.0, 2.0], [0.0, 1.0], [0.0, 0.0]]),
    "node_labels": [0, 1, 1],
    "train_masks": np.eye(2, 3, dtype=bool),
    "val_masks": np.eye(2, 3, k=1, dtype=bool),
    "test_masks": np.zeros((2, 3), dtype=bool),
}
NPZ = {"some.npz": npz(**NPZ_ARRAYS)}

READERS = {
    read_npz: NPZ,
    read_csr_npz: CSR_NPZ,
    read_geom_gcn: GEOM_GCN,
    read_musae: MUSAE,
    read_planetoid: PLANETOID,
}


def edges_of(parts):
    return {
        tuple(pair) for pair in np.argwhere(np.triu(parts.graph.to_scipy().todense()))
    }


def test_geom_gcn():
    parts = read_geom_gcn(GEOM_GCN)
    np.testing.assert_array_equal(parts.features, [[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    assert parts.labels.tolist() == [0, 1, 2]
    assert edges_of(parts) == {(0, 1), (1, 2)}
    assert parts.fixed is None


def test_npz():
    parts = read_npz(NPZ)
    np.testing.assert_array_equal(parts.features, NPZ_ARRAYS["node_features"])
    assert parts.labels.tolist() == [0, 1, 1]
    assert edges_of(parts) == {(0, 1), (1, 2)}
    np.testing.assert_array_equal(parts.fixed.val, NPZ_ARRAYS["val_masks"])


def test_csr_npz():
    parts = read_csr_npz(CSR_NPZ)
    np.testing.assert_array_equal(parts.features.toarray(), np.eye(3))
    assert edges_of(parts) == {(0, 1), (1, 2)}
    assert parts.labels.tolist() == [0, 1, 1]


def test_musae():
    parts = read_musae(MUSAE)
    np.testing.assert_array_equal(parts.features.toarray(), [[1, 0], [0, 0], [1, 1]])
    assert parts.labels.tolist() == [0, 1, 1]
    assert edges_of(parts) == {(0, 2), (1, 2)}


def test_planetoid():
    parts = read_planetoid(PLANETOID)
    rows = [[1, 0], [0, 1], [2, 2], [4, 0], [0, 0], [0, 3]]
    np.testing.assert_array_equal(parts.features.toarray(), rows)
    assert parts.labels.tolist() == [0, 1, 0, 0, -1, 1]
    assert edges_of(parts) == {(0, 1), (2, 3), (0, 5)}
    assert [int(count) for count in parts.graph.cleaning] == [1, 1, 1]
    assert np.flatnonzero(parts.fixed.train[0]).tolist() == [0, 1]
    assert np.flatnonzero(parts.fixed.test[0]).tolist() == [3, 5]


def damaged(content):
    """Truncated, altered and empty versions of a file."""
    yield b""
    yield content[: len(content) // 2]
    yield content[:-3]
    yield b"\0" * len(content)
    yield content[: len(content) // 2] + b"\xff" * 40 + content[len(content) // 2 :]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_damaged_bytes_are_read_as_before_or_refused(read):
    """Never another exception, never a crash; digests catch what still parses."""
    refused = 0
    for name, content in READERS[read].items():
        for bad in damaged(content):
            try:
                read({**READERS[read], name: bad})
            except ValueError as error:
                refused += "must be in the format of" in str(error)
    assert refused >= 3 * len(READERS[read]) - 1


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_missing_file_is_refused(read):
    with pytest.raises(ValueError, match="must be in the format"):
        read({})


class Runs(NamedTuple):
    """A pickle of this calls the function when it is loaded."""

    function: Any
    argument: str

    def __reduce__(self):  # noqa: D105
        return self.function, (self.argument,)


@pytest.mark.parametrize(
    "hostile",
    [
        pickle.dumps(Runs(os.mkdir, "made by a pickle"), protocol=2),
        pickle.dumps(Runs(eval, "1 + 1"), protocol=4),
        pickled(b"cbuiltins\neval\nT\x01\x00\x00\x001\x85R"),
        pickled(b"c__builtin__\ngetattr\n"),
        pickled(b"cnumpy\nload\n"),
        pickled(b"cnumpy.testing._private.utils\nrunstring\n"),
        pickled(b"cscipy.sparse.csr\ncsr_matrix.__init__\n"),
        pickled(b"(T\x04\x00\x00\x00trueios\nsystem\n"),  # the INST opcode
    ],
)
@pytest.mark.parametrize("part", ["x", "ally", "graph"])
def test_pickles_that_run_code_are_refused(hostile, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {**PLANETOID, f"ind.tiny.{part}": hostile}
    if part == "x":  # its rows are in allx too, so it is not even opened
        read_planetoid(files)
    else:
        with pytest.raises(ValueError, match="is not admitted"):
            read_planetoid(files)
    assert list(tmp_path.iterdir()) == []


def header(shape, dtype="<f8"):
    buffer = io.BytesIO()
    description = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, description)
    return buffer.getvalue()


def zipped(members, **options):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return {"some.npz": buffer.getvalue()}


@pytest.mark.parametrize(
    ("members", "options", "reason"),
    [
        ({"edges.npy": header((10**12, 2))}, {}, "16000000000000 bytes announced"),
        ({"edges.npy": header((2**62, 2**62))}, {}, "bytes announced"),
        ({"edges.npy": header((4, 2)) + b"short"}, {}, "64 bytes announced"),
        ({"../edges.npy": header((0, 2))}, {}, "is not a plain name"),
        ({"/etc/edges.npy": header((0, 2))}, {}, "is not a plain name"),
        ({"edges.npy": b"no header"}, {}, "magic"),
        ({"edges.npy": header((0, 2))}, {"compression": zipfile.ZIP_LZMA}, "compress"),
        ({"edges.npy": header((0, 2))}, {}, "node_features"),
    ],
)
def test_hostile_archives_are_refused(members, options, reason):
    with pytest.raises(ValueError, match=reason):
        read_npz(zipped(members, **options))


def test_member_that_unpacks_to_gigabytes_is_not_unpacked(monkeypatch):
    monkeypatch.setattr("dsf_jax.data.formats.MAX_ARRAY_BYTES", 1000)
    with pytest.raises(ValueError, match="8000 bytes announced"):
        read_npz({"some.npz": npz(edges=np.zeros(1000))})


def test_pickled_arrays_are_never_loaded():
    content = npz(**{**NPZ_ARRAYS, "edges": np.asarray([{}], dtype=object)})
    with pytest.raises(ValueError, match="KeyError: 'edges'"):
        read_npz({"some.npz": content})
