"""Trained parameters on disk, with what is needed to use them, checked when read.

A file is MessagePack as written by `flax.serialization`: numbers, strings and arrays,
nothing that could run. It names the model, its settings and the graph by digest, so
that parameters cannot be read for a graph or a model they do not fit.
"""

import dataclasses
import hashlib
import os
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np

from dsf_jax.data.dataset import Dataset
from dsf_jax.graph.graph import Graph
from dsf_jax.graph.positional import NUM_COLUMNS
from dsf_jax.models.params import Inputs, Params, init
from dsf_jax.models.settings import BACKBONES, HyperParams, ModelConfig
from dsf_jax.storage import write_whole

_FORMAT = "dsf_jax parameters 1"
_OPERATORS = ("filter_op", "pos_op")


class Saved(NamedTuple):
    """What `load_params` returns.

    Example:
      >>> Saved._fields
      ('params', 'hparams', 'config', 'scores')
    """

    params: Params
    hparams: HyperParams
    config: ModelConfig
    scores: dict[str, float]


def save_params(
    path: str | os.PathLike[str],
    params: Params,
    hparams: HyperParams,
    dataset: Dataset,
    *,
    config: ModelConfig,
    scores: dict[str, float] | None = None,
) -> None:
    """Write trained parameters with their model, settings and the graph's digest.

    Args:
      path: the file; its folder must exist.
      params: trained parameters.
      hparams: settings of the run.
      dataset: what they were trained on.
      config: the model, on one of `BACKBONES`.
      scores: numbers to keep beside, e.g. the test score.

    Raises:
      ValueError: if the backbone has no name, since functions are not saved.

    Example:
      See `load_params`.

      >>> save_params.__name__
      'save_params'
    """
    ops = {name: getattr(config, name) for name in _OPERATORS}
    backbones = [
        name
        for name, item in BACKBONES.items()
        if item._replace(**ops) == config.backbone
    ]
    if not backbones:
        raise ValueError(
            "config.backbone must be one of BACKBONES to be saved, got another one; "
            "functions are not written to files."
        )
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    record = {
        "format": _FORMAT,
        "graph": _describe(dataset),
        "backbone": backbones[0],
        "operators": ops,
        "config": _plain_fields(config),
        "hparams": {
            name: np.asarray(v).item() for name, v in hparams._asdict().items()
        },
        "scores": scores or {},
        "params": {jax.tree_util.keystr(key): np.asarray(leaf) for key, leaf in leaves},
    }
    write_whole(Path(path), flax.serialization.msgpack_serialize(record))


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
      >>> from dsf_jax import MODELS, make_inputs, regions
      >>> dataset, config, hparams = regions(60), MODELS["gpr"], HyperParams()
      >>> x, x_pos = jnp.asarray(dataset.features), jnp.zeros((2, 60, 32))
      >>> inputs = make_inputs(dataset.graph, x, x_pos, config)
      >>> key = jax.random.key(0)
      >>> params = init(key, inputs, hparams, config=config, num_classes=2)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = f"{folder}/regions.msgpack"
      ...     save_params(path, params, hparams, dataset, config=config)
      ...     load_params(path, dataset).config == config
      True
    """
    record = _read(Path(path))
    saved, given = record["graph"], _describe(dataset)
    if saved != given:
        raise ValueError(
            f"{path} must hold parameters for {_one_line(given)}, got those of "
            f"{_one_line(saved)}; train again or choose another file."
        )
    try:
        config = _config(record)
        hparams = HyperParams(**record["hparams"])
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path} must name a model of this version, got {error}; train again."
        ) from error
    params = _restore(path, record["params"], dataset, hparams, config)
    return Saved(params, hparams, config, record["scores"])


def _config(record: dict[str, Any]) -> ModelConfig:
    """The model of a file; older ones have `self_loops` in the place of operators."""
    backbone, fields = BACKBONES[record["backbone"]], dict(record["config"])
    ops = record.get("operators")
    if ops is None:
        ops = {"pos_op": "a_tilde"}
        if not fields.pop("self_loops"):
            ops = dict.fromkeys(_OPERATORS, "a_hat")
    return ModelConfig(backbone=backbone._replace(**ops), **fields)


def _restore(
    path: str | os.PathLike[str],
    arrays: dict[str, np.ndarray],
    dataset: Dataset,
    hparams: HyperParams,
    config: ModelConfig,
) -> Params:
    """Arrays in the places and shapes that the model has on this data set."""
    num_nodes = dataset.graph.num_nodes
    shapes_of: Any = {  # operators are not looked at
        "filter_op": None,
        "pos_op": None,
        "features": jax.ShapeDtypeStruct(dataset.features.shape, float),
        "x_pos": jax.ShapeDtypeStruct((2, num_nodes, NUM_COLUMNS), float),
    }
    start = partial(init, config=config, num_classes=dataset.num_classes)
    key, inputs = jax.random.key(0), Inputs(**shapes_of)
    expected = jax.eval_shape(start, key, inputs, hparams)
    places, tree = jax.tree_util.tree_flatten_with_path(expected)
    shapes = {jax.tree_util.keystr(key): leaf.shape for key, leaf in places}
    found = {name: array.shape for name, array in arrays.items()}
    if shapes != found:
        raise ValueError(
            f"{path} must hold arrays of the shapes {shapes}, got {found}; train again."
        )
    leaves = [jnp.asarray(arrays[name]) for name in shapes]
    return jax.tree_util.tree_unflatten(tree, leaves)


def _read(path: Path) -> dict[str, Any]:
    problem = f"{path} must be a file from save_params; it is not, or is damaged."
    try:
        record = flax.serialization.msgpack_restore(path.read_bytes())
    except ValueError as error:  # what msgpack raises for any other file
        raise ValueError(problem) from error
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise ValueError(problem)
    return record


def _describe(dataset: Dataset) -> dict[str, Any]:
    return {
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
        f"{facts['features']} features, graph {facts['sha256'][:8]})"
    )


def _digest(graph: Graph) -> str:
    digest = hashlib.sha256()
    for indices in (graph.senders, graph.receivers):
        digest.update(np.asarray(indices, dtype="<i4").tobytes())
    digest.update(np.asarray(graph.weights, dtype="<f4").tobytes())
    return digest.hexdigest()


def _plain_fields(config: ModelConfig) -> dict[str, Any]:
    names = (field.name for field in dataclasses.fields(config))
    return {name: getattr(config, name) for name in names if name != "backbone"}
