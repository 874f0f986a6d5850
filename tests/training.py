"""A small problem to train on, and what the tests of training share."""

import dataclasses
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from dsf_jax import MODELS, Graph, HyperParams
from dsf_jax.data import stratified_split
from dsf_jax.models.local import Offsets, Positional, offsets
from dsf_jax.ops import SparseFeatures
from dsf_jax.train import TrainConfig, TrainData, run_jobs
from tests.graphs import random_edges

NODES, FEATURES, CLASSES = 60, 12, 3
HPARAMS = HyperParams(
    lr=0.03, lr_gamma=0.02, lr_pos=0.01, f_p=6, eta1=0.4, eta2=0.3, a=0.2, b=0.5
)
STATIC = ("model", "train_config")
# for notebooks that train for a few epochs: their programs compile in half the time
COMPILE_FAST = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


def small(name):
    return resize(MODELS[name], order=3, hidden=8, width=5)


def resize(model, *, order, hidden, width):
    """A model with small parts."""
    sizes = {"order": order, "hidden": hidden, "heads": 2, "layers": 3}
    names = {field.name for field in dataclasses.fields(model)}
    model = dataclasses.replace(
        model, **{name: size for name, size in sizes.items() if name in names}
    )
    local = getattr(model, "local", None)
    if isinstance(local, Positional):
        return dataclasses.replace(model, local=dataclasses.replace(local, width=width))
    if isinstance(local, Offsets):
        return dataclasses.replace(model, local=offsets(hidden))
    return model


def make_problem(nodes=NODES):
    """Labels that features and graph both know something of."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, size=nodes)
    graph = Graph.from_edges(random_edges(nodes, 150, seed=0), num_nodes=nodes)
    x = (rng.uniform(size=(nodes, FEATURES)) < 0.3).astype(float)
    x[np.arange(nodes), labels] += rng.uniform(size=nodes) < 0.6
    x_pos = jnp.asarray(rng.normal(size=(2, nodes, 32)))
    splits = [stratified_split(labels, seed=seed) for seed in range(3)]

    def data(model):
        features = SparseFeatures.from_scipy(sp.csr_array(x))
        inputs = model.make_inputs(graph, features, x_pos)
        masks = (jnp.asarray(np.stack(kind)) for kind in zip(*splits, strict=True))
        return TrainData(inputs, jnp.asarray(labels), *masks)

    return data


def settings_of(**changes):
    return TrainConfig(
        **({"num_classes": CLASSES, "epochs": 25, "patience": 4} | changes)
    )


run = jax.jit(run_jobs, static_argnames=STATIC)


def jitted(method):
    """A method of any model, compiled; the model is the keyword `model`."""

    def call(*args, model, **options):
        return getattr(model, method)(*args, **options)

    return jax.jit(call, static_argnames=("model", "num_classes"))


def moved(params, rng, size):
    """Parameters off their special starting values.

    By NumPy: JAX would compile a program for every shape.
    """
    return jax.tree.map(
        lambda leaf: jnp.asarray(np.asarray(leaf) + size * rng.normal(size=leaf.shape)),
        params,
    )


def assert_slope(value, params, rng, *, rtol):
    """A gradient along a random direction, against a central difference."""
    direction = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), params)

    @jax.jit
    @jax.value_and_grad
    def along(step):
        return value(jax.tree.map(lambda p, d: p + step * d, params, direction))

    _, slope = along(0.0)
    h = 1e-6
    difference = (along(h)[0] - along(-h)[0]) / (2 * h)
    np.testing.assert_allclose(slope, difference, rtol=rtol)


def assert_lanes_equal_a_loop(run, *arguments, atol):
    """`run` on stacked arguments, against one call for each."""

    def stack(*leaves):
        if isinstance(leaves[0], jax.Array) and jax.dtypes.issubdtype(
            leaves[0].dtype, jax.dtypes.prng_key
        ):
            return jnp.stack(leaves)
        return np.stack(leaves)  # JAX would compile a program for every shape

    stacked = (jax.tree.map(stack, *trees) for trees in arguments)
    together = jax.jit(jax.vmap(run))(*stacked)
    alone = jax.jit(run)
    for i, own in enumerate(zip(*arguments, strict=True)):
        one = alone(*jax.tree.map(jnp.asarray, own))
        jax.tree.map(
            lambda a, b, i=i: np.testing.assert_allclose(a[i], b, atol=atol),
            together,
            one,
        )


def assert_equal_jobs(results, expected):
    for name in expected._fields:
        for leaf, other in zip(
            *map(jax.tree.leaves, (getattr(results, name), getattr(expected, name))),
            strict=True,
        ):
            np.testing.assert_allclose(leaf, other, atol=1e-8, err_msg=name)


def assert_two_processes_say(word, code, folder, **variables):
    """Run code as two processes with arguments i and port; both must print the word.

    They print to files: one that waits for a full pipe would have the other wait, too.
    And they compile all they run: with programs in the cache they were seen to wait for
    each other without end.
    """
    script = folder / "process.py"
    script.write_text(textwrap.dedent(code))
    port = str(20_000 + os.getpid() % 20_000)
    own = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    environment = os.environ | own | variables
    printed = [folder / f"printed_{i}" for i in range(2)]
    processes = []
    for i, path in enumerate(printed):
        with path.open("w") as file:
            command = [sys.executable, script, str(i), port]
            processes.append(
                subprocess.Popen(
                    command, env=environment, stdout=file, stderr=subprocess.STDOUT
                )
            )
    try:
        status = [process.wait(timeout=600) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for path, ended_with in zip(printed, status, strict=True):
        assert ended_with == 0, path.read_text()[-2000:]
        assert word in path.read_text()
