"""Trained parameters on disk, with what is needed to use them, checked when read.

A file is MessagePack as written by `flax.serialization`: numbers, strings and arrays,
nothing that could run, with a checksum. It names the model, its settings and the graph
by digest, so that parameters cannot be read for a graph or a model they do not fit.
"""

import dataclasses
import hashlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np

from dsf_jax.data.dataset import Dataset
from dsf_jax.graph import embedding
from dsf_jax.graph.graph import Graph
from dsf_jax.graph.laplacian import NUM_COLUMNS
from dsf_jax.models.backbones import BACKBONES, Backbone, ones
from dsf_jax.models.layers import Inputs
from dsf_jax.models.local import Local, free, positional, shared
from dsf_jax.models.model import Model
from dsf_jax.models.settings import HyperParams, check_settings
from dsf_jax.models.spectral import diverse
from dsf_jax.models.zoo import MODELS
from dsf_jax.storage import write_whole

_FORMAT = "dsf_jax parameters 3"
# before models had local weights, and before there was a checksum
_FORMAT_1, _FORMAT_2 = "dsf_jax parameters 1", "dsf_jax parameters 2"
_PLAIN = (bool, int, float, str)
_MAX_ORDER = 1000  # of a model in a file: its basis takes memory before it is compared


class Saved(NamedTuple):
    """What `load_params` returns.

    Example:
      See `load_params`.
    """

    params: Any
    hparams: HyperParams
    model: Model
    scores: dict[str, float]


def save_params(
    path: str | os.PathLike[str],
    params: Any,
    hparams: HyperParams,
    dataset: Dataset,
    *,
    model: Model,
    scores: dict[str, float] | None = None,
) -> None:
    """Write trained parameters with their model, settings and the graph's digest.

    Args:
      path: the file; its folder must exist.
      params: trained parameters.
      hparams: settings of the run.
      dataset: what they were trained on.
      model: a named model, or one that differs from it in numbers and words only.
      scores: numbers to keep beside, e.g. the test score.

    Raises:
      ValueError: if the model has functions of its own, since these are not saved.

    Example:
      >>> import tempfile
      >>> from dsf_jax import regions
      >>> dataset, model, hparams = regions(60), MODELS["gpr"], HyperParams()
      >>> inputs = model.make_inputs(dataset.graph, jnp.asarray(dataset.features))
      >>> params = model.init(jax.random.key(0), inputs, hparams, num_classes=2)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = Path(folder) / "regions.msgpack"
      ...     save_params(path, params, hparams, dataset, model=model)
      ...     path.exists()
      True
    """
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    record = {
        "format": _FORMAT_2,
        "graph": _describe(dataset),
        "model": _describe_model(model),
        "hparams": {
            name: np.asarray(v).item() for name, v in hparams._asdict().items()
        },
        "scores": scores or {},
        "params": {jax.tree_util.keystr(key): np.asarray(leaf) for key, leaf in leaves},
    }
    content = flax.serialization.msgpack_serialize(record)
    checked = {"format": _FORMAT, "sha256": _sha256(content), "content": content}
    write_whole(Path(path), flax.serialization.msgpack_serialize(checked))


def load_params(path: str | os.PathLike[str], dataset: Dataset) -> Saved:
    """Read parameters for a data set; refuse those of another graph.

    Args:
      path: a file from `save_params`.
      dataset: the data set they are to be used on.

    Returns:
      Parameters, settings, model and scores.

    Raises:
      OSError: if the file cannot be read.
      ValueError: if it is no such file, or was saved for another graph or model.

    Example:
      >>> import tempfile
      >>> from dsf_jax import regions
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = Path(folder) / "notes.txt"
      ...     _ = path.write_text("no parameters")
      ...     try:
      ...         load_params(path, regions(60))
      ...     except ValueError as error:
      ...         print(str(error).rpartition("must ")[2])
      be a file from save_params; it is not, or is damaged.
    """
    content = Path(path).read_bytes()
    try:
        return _load(path, content, dataset)
    except _Refusal:
        raise
    except Exception as error:  # damaged bytes fail in any part of it
        raise ValueError(
            f"{path} must be a file from save_params; it is not, or is damaged."
        ) from error


class _Refusal(ValueError):
    """A file that is whole, but of something else."""


def _load(path: str | os.PathLike[str], content: bytes, dataset: Dataset) -> Saved:
    record = _read(content)
    saved, given = record["graph"], _describe(dataset)
    if saved != given:
        raise _Refusal(
            f"{path} must hold parameters for {_one_line(given)}, got those of "
            f"{_one_line(saved)}; train again or choose another file."
        )
    try:
        if record["format"] == _FORMAT_1:
            record |= _from_format_1(record)
        else:
            record["model"] = _build_model(**record["model"])
        hparams = HyperParams(**record["hparams"])
    except (KeyError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise _Refusal(
            f"{path} must name a model of this version, got {reason}; train again."
        ) from error
    model, scores = record["model"], record["scores"]
    check_settings(hparams)
    if model.order > _MAX_ORDER:
        raise ValueError(f"order {model.order}")
    if not all(isinstance(value, int | float) for value in scores.values()):
        raise ValueError("no scores")
    params = _restore(path, record["params"], dataset, hparams, model)
    return Saved(params, hparams, model, scores)


def _describe_model(model: Model) -> dict[str, Any]:
    """The named model that is nearest, and the plain fields in which it differs."""
    own, nearest = dict(_fields(model)), None
    for name, other in MODELS.items():
        theirs = dict(_fields(other))
        if theirs.keys() != own.keys():
            continue
        changes = {field: own[field] for field in own if own[field] != theirs[field]}
        if not all(isinstance(value, _PLAIN) for value in changes.values()):
            continue
        if nearest is None or len(changes) < len(nearest["changes"]):
            nearest = {"name": name, "changes": changes}
    if nearest is None:
        raise ValueError(
            "model must be one of MODELS, or differ from it in numbers and words only, "
            "to be saved, got another one; functions are not written to files."
        )
    return nearest


def _fields(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Fields of a model and of its parts, by dotted names; parts by their type."""
    yield f"{prefix}type", type(value)
    names = getattr(value, "_fields", None) or [
        f.name for f in dataclasses.fields(value)
    ]
    for name in names:
        item = getattr(value, name)
        if isinstance(item, Backbone | Local):
            yield from _fields(item, f"{prefix}{name}.")
        else:
            yield prefix + name, item


def _build_model(name: str, changes: dict[str, Any]) -> Model:
    """The model of a file."""
    model: Any = MODELS[name]
    for field, value in changes.items():
        part, _, own = field.rpartition(".")
        if not part:
            model = dataclasses.replace(model, **{own: value})
        elif isinstance(old := getattr(model, part), Backbone):
            model = dataclasses.replace(model, **{part: old._replace(**{own: value})})
        else:
            new = dataclasses.replace(old, **{own: value})
            model = dataclasses.replace(model, **{part: new})
    return model


def _from_format_1(record: dict[str, Any]) -> dict[str, Any]:
    """Model and parameters of a file from before models had local weights."""
    fields = dict(record["config"])
    ops = record.get("operators")
    if ops is None:  # the oldest have `self_loops` in the place of operators
        ops = {"pos_op": "a_tilde"}
        if not fields.pop("self_loops"):
            ops = dict.fromkeys(("filter_op", "pos_op"), "a_hat")
    name = record["backbone"]
    backbone = BACKBONES[f"gpr-{name}" if name in ("chebyshev", "legendre") else name]
    backbone = backbone._replace(factors_inside=fields["factors_inside"], **ops)
    if not fields["has_lgwd"]:
        backbone = backbone._replace(fixed_gamma=ones)
    if fields["variant"] == "base":
        local = shared()
    elif not fields["has_ipe"]:
        local = free(from_gamma=not fields["has_lgwd"])
    else:
        own = ("variant", "width", "has_orth", "correlation", "mean_correlation")
        local = positional(**{name: fields[name] for name in own})
    options = {name: fields[name] for name in ("order", "hidden", "project_first")}
    return {
        "model": diverse(backbone, local, **options),
        "params": {
            key.replace(".position", ".local").replace(".free", ".local"): array
            for key, array in record["params"].items()
        },
    }


def _restore(
    path: str | os.PathLike[str],
    arrays: dict[str, np.ndarray],
    dataset: Dataset,
    hparams: HyperParams,
    model: Model,
) -> Any:
    """Arrays in the places and shapes that the model has on this data set."""
    num_nodes = dataset.graph.num_nodes
    shapes_of: Any = {  # operators are not looked at
        "filter_op": None,
        "pos_op": None,
        "features": jax.ShapeDtypeStruct(dataset.features.shape, float),
        "x_pos": jax.ShapeDtypeStruct((2, num_nodes, NUM_COLUMNS), float),
        "embedding": jax.ShapeDtypeStruct((num_nodes, embedding.WIDTH), float),
    }
    start = partial(model.init, num_classes=dataset.num_classes)
    key, inputs = jax.random.key(0), Inputs(**shapes_of)
    expected = jax.eval_shape(start, key, inputs, hparams)
    places, tree = jax.tree_util.tree_flatten_with_path(expected)
    shapes = {jax.tree_util.keystr(key): leaf.shape for key, leaf in places}
    found = {name: array.shape for name, array in arrays.items()}
    if shapes != found:
        raise _Refusal(
            f"{path} must hold arrays of the shapes {shapes}, got {found}; train again."
        )
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float64) or not np.isfinite(array).all():
            raise _Refusal(
                f"{path} must hold finite numbers in float32 or float64, got "
                f"{array.dtype} in {name} with {np.size(array)} entries; train again."
            )
    leaves = [jnp.asarray(arrays[name]) for name in shapes]
    return jax.tree_util.tree_unflatten(tree, leaves)


def _read(content: bytes) -> dict[str, Any]:
    """The record of a file; its checksum is right if it has one."""
    record = flax.serialization.msgpack_restore(content)
    if record["format"] == _FORMAT:
        content = record["content"]
        if _sha256(content) != record["sha256"]:
            raise ValueError("another checksum")
        record = flax.serialization.msgpack_restore(content)
    if record["format"] not in (_FORMAT_1, _FORMAT_2):
        raise ValueError("another format")
    return record


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _describe(dataset: Dataset) -> dict[str, Any]:
    names = dataset.class_names
    words = {} if names is None else {"class_names": names.tolist()}
    return words | {
        "name": dataset.name,
        "nodes": dataset.graph.num_nodes,
        "edges": dataset.graph.num_edges,
        "features": dataset.features.shape[1],
        "classes": dataset.num_classes,
        "sha256": _digest(dataset.graph),
    }


def _one_line(facts: dict[str, Any]) -> str:
    return (
        f"{facts['name']!r} ({facts['nodes']} nodes, {facts['edges']} edges, "
        f"{facts['features']} features, {facts['classes']} classes"
        f"{': ' + ', '.join(words) if (words := facts.get('class_names')) else ''}, "
        f"graph {facts['sha256'][:8]})"
    )


def _digest(graph: Graph) -> str:
    digest = hashlib.sha256()
    for indices in (graph.senders, graph.receivers):
        digest.update(np.asarray(indices, dtype="<i4").tobytes())
    digest.update(np.asarray(graph.weights, dtype="<f4").tobytes())
    return digest.hexdigest()
