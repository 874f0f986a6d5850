"""What the models compute stays what it was: 50 epochs of every named model, frozen.

`frozen.npz` holds the parameters and the logits of every model after 50 epochs of
training on the small problem of `tests.training`, in float64, as they were before the
package got its rooms. `python -m tests.test_frozen` writes it anew: only when a change
of behaviour is meant.
"""

from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

from dsf_jax import MODELS
from dsf_jax.train import Jobs, init_state, train_epoch
from tests.training import HPARAMS, make_problem, settings_of, small

FILE = Path(__file__).parent / "frozen.npz"
EPOCHS = 50
QUICK = ("gpr", "dsf-bern-i", "dsf-jacobi-r", "fagcn")


def train(name):
    """Parameters after 50 epochs, as a list of arrays, and what is known of the run."""
    model, train_config = small(name), settings_of(epochs=EPOCHS + 1, patience=EPOCHS)
    data = make_problem()(model)
    hparams = HPARAMS._replace(lambda_orth=0.05, dropout_pos=0.2, depth=3)
    job = Jobs(jax.random.key(5), 1, hparams)
    configs = {"model": model, "train_config": train_config}
    state = jax.jit(partial(init_state, **configs))(job, data)
    step = jax.jit(partial(train_epoch, **configs))
    for _ in range(EPOCHS):
        state, _ = step(state, job, data, model.flags(hparams))
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state.params)]
    return leaves, np.asarray([state.best.train_loss, state.best.val, state.best.test])


def matched(leaves, others):
    """Pairs of arrays with the same shape, the nearest ones: places may change."""
    left = list(others)
    for leaf in leaves:
        alike = [i for i, other in enumerate(left) if other.shape == leaf.shape]
        nearest = min(alike, key=lambda i: np.abs(left[i] - leaf).max())
        yield leaf, left.pop(nearest)
    assert not left


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in sorted({key.partition("/")[0] for key in np.load(FILE).files})
    ],
)
def test_training_is_what_it_was(name):
    frozen = np.load(FILE)
    keys = [key for key in frozen.files if key.startswith(f"{name}/param")]
    leaves, scores = train(name)
    assert len(leaves) == len(keys)
    for ours, theirs in matched(leaves, [frozen[key] for key in keys]):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)
    np.testing.assert_allclose(scores, frozen[f"{name}/scores"], atol=1e-10)


def test_every_frozen_model_is_there():
    assert set(MODELS) >= {key.partition("/")[0] for key in np.load(FILE).files}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    arrays = {}
    for model in MODELS:
        params, scores = train(model)
        arrays[f"{model}/scores"] = scores
        arrays |= {f"{model}/param {i}": leaf for i, leaf in enumerate(params)}
    np.savez_compressed(FILE, **arrays)
