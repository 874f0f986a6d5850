"""What every model is: pure functions of one run, in a static, hashable value.

Training, evaluation and saving know a model by this interface alone: parameters, masks
and outputs are pytrees that they hand from one method to the next. A model of your own
is a frozen dataclass with `start` and `forward`, or `dsf_jax.diverse(...)` of parts.
"""

import abc
import dataclasses
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float, Int, Key

from dsf_jax.graph.graph import Graph
from dsf_jax.models.layers import Inputs, Masks
from dsf_jax.models.settings import HyperParams, check_config, check_settings
from dsf_jax.ops.correlation import draw_sample
from dsf_jax.ops.dropout import draw_mask
from dsf_jax.ops.matrix import SparseFeatures
from dsf_jax.ops.nodes import total
from dsf_jax.ops.operator import OPERATORS

Flags = dict[str, Any]

# the key of each mask, whichever others there are; no model has z and edges, or noise
# and a sample
_MASK_KEYS = {"x": 0, "h": 1, "z": 2, "edge": 2, "pos": 3, "noise": 4, "sample": 4}


class Run(NamedTuple):
    """What a pass through a model is given beside its parameters.

    `flags` are facts about all jobs on the lanes, by which work that none of them needs
    is skipped for all; {} skips nothing.
    """

    inputs: Inputs
    hparams: HyperParams
    masks: Masks = Masks()  # from `Model.draw_masks` in training; none in evaluation
    flags: Flags = {}  # from `Model.flags`
    signal: Float[Array, "N C"] | None = None  # for local weights that read it


class Output(NamedTuple):
    """What `Model.apply` returns."""

    logits: Float[Array, "N C"]
    # what the penalty reads: P^(K) of positional weights, Δ of offsets
    local: Any = None
    is_node: Bool[Array, " N"] | None = None  # rows that count; None: all


class Group(NamedTuple):
    """Rate and decay of a group of parameters.

    Example:
      >>> Group(rate=0.01, decay=5e-4).rate
      0.01
    """

    rate: Any
    decay: Any


class LocalWeights(NamedTuple):
    """Weights of every order and node, from `Model.local_weights`."""

    gamma: Float[Array, " K1"]  # global weights; of the first channel if several
    theta: Float[Array, "K1 N"]  # local factors; for ρ_s, their products
    beta: Float[Array, "K1 N"]  # γ_k θ_{k,i} + Δ_{k,i}; of the first channel
    rho: Float[Array, "K N"] | None = None  # factors, where the backbone has them


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model(abc.ABC):
    """A model: what a subclass must define are `start` and `forward`.

    Example:
      >>> from dsf_jax import Graph, MODELS
      >>> edge, model = Graph.from_edges([(0, 1)], num_nodes=2), MODELS["gcn"]
      >>> inputs, hparams = model.make_inputs(edge, jnp.eye(2)), HyperParams(lr=0.1)
      >>> params = model.init(jax.random.key(0), inputs, hparams, num_classes=3)
      >>> model.apply(params, inputs, hparams).logits.shape
      (2, 3)
    """

    order: int = 10  # K
    hidden: int = 64

    least: ClassVar[dict[str, int]] = {"order": 0, "hidden": 1}  # of its sizes
    # fields of `HyperParams` that change anything
    reads: ClassVar[Any] = frozenset({"lr", "decay", "dropout_x", "dropout_h"})
    signal_width: ClassVar[Any] = 16  # of the widest signal on the graph, about
    filter_op: ClassVar[Any] = "a_tilde"  # what it runs on: a name in `OPERATORS`
    uses_positions: ClassVar[Any] = False  # whether it reads `Inputs.x_pos`
    weighs_edges: ClassVar[Any] = False  # whether it reads `Inputs.edges`
    has_correlation: ClassVar[Any] = False  # S: N x N numbers for each order
    has_filters: ClassVar[Any] = False  # whether `local_weights` knows any
    # whether nodes meet in products and `dsf_jax.ops.nodes` only, and no parameter is
    # of a node: they can then be shared out over devices
    is_shardable: ClassVar[Any] = False

    def __post_init__(self) -> None:
        """Check what the annotations cannot."""
        check_config(self, self.least)

    @abc.abstractmethod
    def start(self, key: Key[Array, ""], run: Run, num_classes: int) -> Any:
        """Initial parameters, a pytree."""

    @abc.abstractmethod
    def forward(self, params: Any, run: Run) -> Output:
        """Logits of every node."""

    def mask_shapes(self, params: Any, inputs: Inputs) -> dict[str, tuple[int, ...]]:
        """Shapes of the masks that it uses, by name, features apart."""
        return {"h": (inputs.features.shape[0], self.hidden)}

    def penalty(self, output: Output, hparams: HyperParams) -> Any:
        """What the loss has beside the task; None for nothing."""
        return None

    def groups(self, hparams: HyperParams) -> Any:
        """A tree of `Group` that is a prefix of the parameters; one for all."""
        return Group(hparams.lr, hparams.decay)

    def flags(self, hparams: HyperParams) -> Flags:
        """Facts about jobs that run side by side; not batched."""
        return {}

    @property
    def exact(self) -> "Model":
        """The same without estimates that only training and stopping need."""
        return self

    def make_inputs(
        self,
        graph: Graph,
        features: SparseFeatures | Float[Array, "N F"],
        x_pos: Float[Array, "2 N 32"] | None = None,
    ) -> Inputs:
        """Operators that the model needs, with features and positional features.

        `x_pos` is from `positional_features`; models without positions do not read it.
        """
        if self.uses_positions and x_pos is None:
            raise ValueError(
                "x_pos must be given for a model with positions, got None; use "
                "positional_features(graph).x_pos."
            )
        op = OPERATORS[self.filter_op](graph)
        edges = SparseFeatures.from_scipy(op.to_scipy()) if self.weighs_edges else None
        return Inputs(op, op, features, x_pos, edges)

    def init(
        self,
        key: Key[Array, ""],
        inputs: Inputs,
        hparams: HyperParams,
        *,
        num_classes: int,
    ) -> Any:
        """Initial parameters; settings are checked where they are no tracers."""
        check_settings(hparams)
        return self.start(key, Run(inputs, hparams), num_classes)

    def draw_masks(self, key: Key[Array, ""], params: Any, run: Run) -> Masks:
        """Dropout masks of one training step; mask m has the rate `dropout_m`.

        None is drawn where a flag `no_dropout_m` is set for all lanes.
        """
        features = run.inputs.features
        stored = features.values if isinstance(features, SparseFeatures) else features
        shapes = {"x": stored.shape, **self.mask_shapes(params, run.inputs)}
        dtype = jax.tree.leaves(params)[0].dtype
        keys, masks = jax.random.split(key, 5), {}
        places = run.inputs.places
        for name, shape in shapes.items():
            key = keys[_MASK_KEYS[name]]
            if name == "noise":
                masks[name] = jax.random.normal(key, shape, dtype)
                continue
            if name == "sample":
                masks[name] = draw_sample(key, features.shape[0], *shape)
                continue
            rate = getattr(run.hparams, f"dropout_{name}")
            rows = None if places is None else places.nodes
            if name == "x" and places is not None and places.values is not None:
                rows = places.values
            draw = partial(draw_mask, key, rate, shape, dtype=dtype, rows=rows)
            is_idle = run.flags.get(f"no_dropout_{name}", False)
            ones = partial(jnp.ones, shape, dtype)
            masks[name] = (
                draw() if is_idle is False else jax.lax.cond(is_idle, ones, draw)
            )
        return Masks(**masks)

    def apply(
        self,
        params: Any,
        inputs: Inputs,
        hparams: HyperParams,
        *,
        masks: Masks | None = None,
        flags: Flags | None = None,
    ) -> Output:
        """Logits of every node; `masks` are from `draw_masks`, none in evaluation.

        Parameters and settings belong together. Those of another model or other inputs
        are refused where types, places or shapes differ. Not told apart are models with
        the same parameters, as gpr and bern, and settings that choose how parameters
        are used, as f_p: logits are then wrong. `fit`, `save` and `load` keep a model,
        its parameters and its settings together.

        Raises:
          ValueError: if `params` cannot be those of this model for these inputs.
        """
        run = Run(inputs, hparams, Masks() if masks is None else masks, flags or {})
        check_params(self, params, run)
        return self.forward(params, run)

    def apply_both(self, params: Any, run: Run) -> tuple[Output, Float[Array, "N C"]]:
        """Training output and evaluation logits of the same parameters.

        The logits are without dropout and constant under differentiation.
        """
        constant, clean = jax.lax.stop_gradient(params), run._replace(masks=Masks())
        return self.forward(params, run), self.forward(constant, clean).logits

    def loss(
        self,
        output: Output,
        labels: Int[Array, " N"],
        train_mask: Bool[Array, " N"],
        hparams: HyperParams,
        *,
        is_binary: bool = False,
    ) -> Float[Array, ""]:
        """Training loss: `task_loss` of the training nodes, and the penalty."""
        task = task_loss(output.logits, labels, train_mask, is_binary=is_binary)
        penalty = self.penalty(output, hparams)
        return task if penalty is None else task + penalty

    def local_weights(
        self, params: Any, inputs: Inputs, hparams: HyperParams
    ) -> LocalWeights:
        """Weights γ, and θ, β and factors ρ of every node, in evaluation mode.

        `dsf_jax.filters.response(weights.beta, lam, basis)` are the filters g_i(λ).
        With factors inside the recurrence (JacobiConv as released) they are those of
        the outside form.

        Raises:
          ValueError: if the model has no polynomial filter.
        """
        raise ValueError(
            f"model must have a polynomial filter, got {type(self).__name__}; choose "
            "gpr, bern, jacobi, appnp or a DSF model."
        )


def check_params(model: Model, params: Any, run: Run) -> None:
    """Refuse parameters that another model, or this one on other inputs, would have.

    By types, places and shapes, at trace time; `Model.apply` says what is not told.

    Example:
      >>> from dsf_jax import Graph, MODELS
      >>> edge, model = Graph.from_edges([(0, 1)], num_nodes=2), MODELS["gcn"]
      >>> inputs, hparams = model.make_inputs(edge, jnp.eye(2)), HyperParams(lr=0.1)
      >>> params = model.init(jax.random.key(0), inputs, hparams, num_classes=3)
      >>> check_params(model, params, Run(inputs, hparams))
    """
    start = partial(model.start, num_classes=_ANY_NUMBER)
    bare = Run(run.inputs, run.hparams)
    own = jax.eval_shape(start, jax.random.key(0), bare)
    expected, found = _shapes(own), _shapes(params)
    for place in [*expected, *found]:
        wanted, given = expected.get(place), found.get(place)
        if wanted is None or given is None or not _fits(given, wanted):
            raise _other_params(place, _shape_text(given), _shape_text(wanted))
    if type(params) is not type(own):  # a Perceptron may be where Params should
        raise _other_params("", type(params).__name__, type(own).__name__)


def _other_params(place: str, given: str, wanted: str) -> ValueError:
    return ValueError(
        "params must be those of this model for these inputs, got params"
        f"{place}: {given} in the place of {wanted}; use what its init or training "
        "gave for the same graph and settings."
    )


# of classes: stands for whatever the parameters have; a size beyond it is made of it
_ANY_NUMBER = 1_000_003


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(place): jnp.shape(leaf) for place, leaf in leaves}


def _fits(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(given) == len(wanted) and all(
        size == own or size >= _ANY_NUMBER
        for own, size in zip(given, wanted, strict=True)
    )


def _shape_text(shape: tuple[int, ...] | None) -> str:
    if shape is None:
        return "nothing"
    sizes = ("C" if size >= _ANY_NUMBER else str(size) for size in shape)
    return f"shape [{', '.join(sizes)}]"


def task_loss(
    logits: Float[Array, "N C"],
    labels: Int[Array, " N"],
    mask: Bool[Array, " N"],
    *,
    is_binary: bool = False,
) -> Float[Array, ""]:
    """Mean cross-entropy of the masked nodes.

    With `is_binary`, the mean over both columns of the binary cross-entropy against the
    one-hot label, as the authors train Twitch-DE.

    Example:
      >>> labels, mask = jnp.asarray([0, 1]), jnp.asarray([True, False])
      >>> value = task_loss(jnp.zeros((2, 2)), labels, mask, is_binary=True)
      >>> round(float(value), 4)  # log 2
      0.6931
    """
    targets = jax.nn.one_hot(labels, logits.shape[1], dtype=logits.dtype)
    if is_binary:
        columns = optax.sigmoid_binary_cross_entropy(logits, targets)
        per_node = jnp.mean(columns, axis=1)
    else:
        per_node = optax.softmax_cross_entropy(logits, targets)
    count = total(jnp.sum(mask)).astype(per_node.dtype)
    return total(jnp.sum(jnp.where(mask, per_node, 0.0))) / count
