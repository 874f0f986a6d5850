"""A small problem to train on, and what the tests of training share."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from dsf_jax import (
    MODELS,
    Graph,
    HyperParams,
    SparseFeatures,
    make_inputs,
    stratified_split,
)
from dsf_jax.models.settings import BaselineConfig
from dsf_jax.train import TrainConfig, TrainData, run_jobs
from tests.graphs import random_edges

NODES, FEATURES, CLASSES = 60, 12, 3
HPARAMS = HyperParams(
    lr=0.03, lr_gamma=0.02, lr_pos=0.01, f_p=6, eta1=0.4, eta2=0.3, a=0.2, b=0.5
)
STATIC = ("config", "train_config")


def small(name):
    config = MODELS[name]
    if isinstance(config, BaselineConfig):
        return dataclasses.replace(config, order=3, hidden=8, heads=2, layers=3)
    return dataclasses.replace(config, order=3, hidden=8, width=5)


def make_problem():
    """Labels that features and graph both know something of."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, size=NODES)
    graph = Graph.from_edges(random_edges(NODES, 150, seed=0), num_nodes=NODES)
    x = (rng.uniform(size=(NODES, FEATURES)) < 0.3).astype(float)
    x[np.arange(NODES), labels] += rng.uniform(size=NODES) < 0.6
    x_pos = jnp.asarray(rng.normal(size=(2, NODES, 32)))
    splits = [stratified_split(labels, seed=seed) for seed in range(3)]

    def data(config):
        features = SparseFeatures.from_scipy(sp.csr_array(x))
        inputs = make_inputs(graph, features, x_pos, config)
        masks = (jnp.asarray(np.stack(kind)) for kind in zip(*splits, strict=True))
        return TrainData(inputs, jnp.asarray(labels), *masks)

    return data


def settings_of(**changes):
    return TrainConfig(
        **({"num_classes": CLASSES, "epochs": 25, "patience": 4} | changes)
    )


run = jax.jit(run_jobs, static_argnames=STATIC)


def assert_equal_jobs(results, expected):
    for name in expected._fields:
        for leaf, other in zip(
            *map(jax.tree.leaves, (getattr(results, name), getattr(expected, name))),
            strict=True,
        ):
            np.testing.assert_allclose(leaf, other, atol=1e-8, err_msg=name)
