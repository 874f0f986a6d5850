"""Planetoid's pickles, read without a machine that can do more than they need.

Those files hold an array, a CSR matrix or lists of neighbours, as NumPy and SciPy under
Python 2 pickled them. `read_pickle` knows the opcodes and names that they use, builds
its own values from them, and calls nothing that a file names. It takes time and memory
in proportion to the file, whatever that holds.
"""

import enum
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

Content: TypeAlias = np.ndarray | sp.csr_array | dict[int, list[int]]

_MAX_MARKS = 16  # groups inside each other; the files have three
_MAX_TUPLE = 16  # entries of a tuple; the files have eight


class _Name(enum.Enum):
    """A name of a module that a file may mention."""

    LIST = "__builtin__", "list"
    DEFAULTDICT = "collections", "defaultdict"
    DTYPE = "numpy", "dtype"
    NDARRAY = "numpy", "ndarray"
    RECONSTRUCT = "numpy.core.multiarray", "_reconstruct"
    CSR = "scipy.sparse.csr", "csr_matrix"


# what stands on the stack for an object that is made first and filled later
class _Dtype:
    def __init__(self, code: bytes) -> None:
        self.code = code


class _Array:
    state: Any = None


class _Matrix:
    state: Any = None


_DTYPES = {code: np.dtype(f"<{code.decode()}") for code in (b"i4", b"i8", b"f4", b"f8")}
_LITTLE_ENDIAN = (3, b"<", None, None, None, -1, -1, 0)
_EMPTY_ARRAY = (_Name.NDARRAY, (0,), b"b")
_CONTAINERS = (tuple, list, dict)


def read_pickle(content: bytes) -> Content:
    r"""What one of Planetoid's pickles holds.

    Args:
      content: the file.

    Returns:
      An array of `i4`, `i8`, `f4` or `f8`, a CSR matrix whose indices were checked, or
      lists of neighbours by node.

    Raises:
      ValueError: if the file is cut short, or holds anything else.

    Example:
      Lists of neighbours, opcode by opcode: a `defaultdict(list)`, to which the node 0
      with its list [1, 2] is added.

      >>> made = b"ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R"
      >>> read_pickle(b"\x80\x02" + made + b"(K\x00](K\x01K\x02eu.")
      {0: [1, 2]}
      >>> read_pickle(b"\x80\x02cos\nsystem\n.")
      Traceback (most recent call last):
      ValueError: 'os.system' is not admitted
    """
    return _Machine(content).run()


def checked_csr(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, *, shape: Any
) -> sp.csr_array:
    """A CSR matrix of three arrays from a file.

    SciPy's own check does not look at the row pointers of a matrix whose last one is 0:
    others before it make it write beyond its arrays.

    Raises:
      ValueError: if the arrays are not those of such a matrix.

    Example:
      >>> zero = np.zeros(0, dtype=int)
      >>> checked_csr(zero, zero, np.asarray([0, 9, 0]), shape=(2, 2))
      Traceback (most recent call last):
      ValueError: row pointers fall
    """
    if indptr.ndim != 1 or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError("row pointers fall")
    matrix = sp.csr_array((data, indices, indptr), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def _refuse(what: str) -> ValueError:
    return ValueError(f"{what} is not admitted")


class _Machine:
    """The stack, the memo and the place in a file."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0
        self.stack: list[Any] = []
        self.outer: list[list[Any]] = []  # stacks below each mark
        self.memo: dict[int, Any] = {}

    def run(self) -> Content:
        while (opcode := self.take(1)) != b".":
            if opcode not in _OPCODES:
                raise _refuse(f"opcode {opcode!r}")
            _OPCODES[opcode](self)
        found = self.pop()
        if self.outer or self.stack:
            raise ValueError("something is left over")
        return self.checked(found)

    def checked(self, found: Any) -> Content:
        if isinstance(found, _Array):
            return _array(found, len(self.content))
        if isinstance(found, _Matrix):
            return _matrix(found, len(self.content))
        if not isinstance(found, dict):
            raise _refuse("an object of another kind")
        for node, ends in found.items():
            if type(node) is not int or type(ends) is not list:
                raise _refuse("a dictionary of anything but lists")
        # a list may be named again and again, each in fewer bytes than it has entries
        if sum(map(len, found.values())) > len(self.content):
            raise ValueError("there are more neighbours than bytes")
        return found

    def take(self, count: int) -> bytes:
        end = self.place + count
        if count < 0 or end > len(self.content):
            raise ValueError(f"the file ends after {len(self.content)} bytes")
        piece, self.place = self.content[self.place : end], end
        return piece

    def line(self) -> str:
        end = self.content.find(b"\n", self.place, self.place + 100)
        if end < 0:
            raise _refuse("a name without an end")
        return self.take(end + 1 - self.place)[:-1].decode("ascii")

    def integer(self, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack:
            raise ValueError("the stack is empty")
        return self.stack.pop()

    def proto(self) -> None:
        if (version := self.integer(1)) != 2:
            raise _refuse(f"protocol {version}")

    def name(self) -> None:
        module, name = self.line(), self.line()
        try:
            self.push(_Name((module, name)))
        except ValueError:
            raise _refuse(repr(f"{module}.{name}")) from None

    def mark(self) -> None:
        if len(self.outer) == _MAX_MARKS:
            raise _refuse(f"nesting deeper than {_MAX_MARKS}")
        self.outer.append(self.stack)
        self.stack = []

    def group(self) -> list[Any]:
        """What stands on the stack since the last mark."""
        if not self.outer:
            raise ValueError("there is no mark")
        group, self.stack = self.stack, self.outer.pop()
        return group

    def push_tuple(self, entries: list[Any]) -> None:
        if len(entries) > _MAX_TUPLE:
            raise _refuse(f"a tuple of {len(entries)}")
        inner = [entry for entry in entries if isinstance(entry, tuple)]
        if any(isinstance(value, _CONTAINERS) for entry in inner for value in entry):
            raise _refuse("a tuple of tuples of tuples")
        self.push(tuple(entries))

    def pop_tuple(self, size: int) -> None:
        self.push_tuple([self.pop() for _ in range(size)][::-1])

    def put(self, index: int) -> None:
        value = self.pop()
        self.push(value)
        self.memo[index] = value

    def get(self, index: int) -> None:
        if index not in self.memo:
            raise ValueError(f"the memo has no entry {index}")
        self.push(self.memo[index])

    def append(self, entries: list[Any]) -> None:
        target = self.pop()
        if type(target) is not list or any(type(entry) is not int for entry in entries):
            raise _refuse("a list of anything but integers")
        target += entries
        self.push(target)

    def set_items(self, entries: list[Any]) -> None:
        target, keys, values = self.pop(), entries[::2], entries[1::2]
        if type(target) is not dict or len(keys) != len(values):
            raise _refuse("a dictionary in pieces")
        if any(type(key) not in (int, bytes) for key in keys):
            raise _refuse("a key that is neither an integer nor a string")
        if any(isinstance(value, dict) for value in values):
            raise _refuse("a dictionary of dictionaries")
        target.update(zip(keys, values, strict=True))
        self.push(target)

    def call(self) -> None:
        arguments, function = self.pop(), self.pop()
        if function is _Name.DEFAULTDICT and arguments == (_Name.LIST,):
            self.push({})
        elif function is _Name.RECONSTRUCT and arguments == _EMPTY_ARRAY:
            self.push(_Array())
        elif function is _Name.CSR and arguments == ():
            self.push(_Matrix())
        elif function is _Name.DTYPE and type(arguments) is tuple:
            self.push(_Dtype(_code(arguments)))
        else:
            raise _refuse("a call of another kind")

    def build(self) -> None:
        state, target = self.pop(), self.pop()
        if isinstance(target, _Dtype):
            if state != _LITTLE_ENDIAN:
                raise _refuse("a dtype of another state")
        elif isinstance(target, _Array | _Matrix):
            target.state = state  # looked at when it is known which ones are used
        else:
            raise _refuse("a state of another kind")
        self.push(target)


def _code(arguments: tuple[Any, ...]) -> bytes:
    code = arguments[0] if arguments[1:] == (0, 1) else None
    if type(code) is not bytes or code not in _DTYPES:
        raise _refuse("a dtype but i4, i8, f4 and f8")
    return code


def _check_shape(shape: Any, max_size: int) -> None:
    """No side may be longer than the file, even where another one is 0."""
    if type(shape) is not tuple or any(type(size) is not int for size in shape):
        raise _refuse("a shape of anything but integers")
    if any(not 0 <= size <= max_size for size in shape):
        raise _refuse(f"shape {shape} in {max_size} bytes")


def _array(found: _Array, max_size: int) -> np.ndarray:
    if type(found.state) is not tuple or len(found.state) != 5:
        raise _refuse("an array of another state")
    version, shape, dtype, is_fortran, data = found.state
    if version != 1 or type(is_fortran) is not bool:
        raise _refuse("an array of another state")
    if type(dtype) is not _Dtype or type(data) is not bytes:
        raise _refuse("an array of objects")
    _check_shape(shape, max_size)
    kind = _DTYPES[dtype.code]
    if math.prod(shape) * kind.itemsize != len(data):
        raise ValueError(f"there are {len(data)} bytes for shape {shape}")
    flat = np.frombuffer(data, kind)
    return flat.reshape(shape, order="F" if is_fortran else "C")


def _matrix(found: _Matrix, max_size: int) -> sp.csr_array:
    if type(found.state) is not dict:
        raise _refuse("a matrix of another state")
    parts: list[Any] = [
        found.state.get(key) for key in (b"data", b"indices", b"indptr")
    ]
    if any(type(part) is not _Array for part in parts):
        raise _refuse("a matrix without its arrays")
    data, *indices = (_array(part, max_size) for part in parts)
    if any(part.dtype.kind != "i" or part.ndim != 1 for part in indices):
        raise _refuse("a matrix whose indices are no integers")
    shape = found.state.get(b"_shape")
    _check_shape(shape, max_size)
    return checked_csr(data, *indices, shape=shape)


_OPCODES: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": _Machine.proto,
    b"c": _Machine.name,
    b"(": _Machine.mark,
    b"K": lambda machine: machine.push(machine.integer(1)),
    b"M": lambda machine: machine.push(machine.integer(2)),
    b"J": lambda machine: machine.push(machine.integer(4, signed=True)),
    b"U": lambda machine: machine.push(machine.take(machine.integer(1))),
    b"T": lambda machine: machine.push(machine.take(machine.integer(4, signed=True))),
    b"N": lambda machine: machine.push(None),
    b"\x88": lambda machine: machine.push(True),
    b"\x89": lambda machine: machine.push(False),
    b"]": lambda machine: machine.push([]),
    b"}": lambda machine: machine.push({}),
    b")": lambda machine: machine.push(()),
    b"\x85": lambda machine: machine.pop_tuple(1),
    b"\x86": lambda machine: machine.pop_tuple(2),
    b"\x87": lambda machine: machine.pop_tuple(3),
    b"t": lambda machine: machine.push_tuple(machine.group()),
    b"q": lambda machine: machine.put(machine.integer(1)),
    b"r": lambda machine: machine.put(machine.integer(4)),
    b"h": lambda machine: machine.get(machine.integer(1)),
    b"j": lambda machine: machine.get(machine.integer(4)),
    b"a": lambda machine: machine.append([machine.pop()]),
    b"e": lambda machine: machine.append(machine.group()),
    b"s": lambda machine: machine.set_items([machine.pop(), machine.pop()][::-1]),
    b"u": lambda machine: machine.set_items(machine.group()),
    b"\x81": _Machine.call,
    b"R": _Machine.call,
    b"b": _Machine.build,
}
