"""Names that other projects have for this project's metrics.

:data:`ALIASES` has only exact matches: the same quantity over the same responses or
tokens. Here a mean over tokens is over all tokens of a step; other projects often
average the means of micro-batches. docs/coming_from.md has the table, and the names
without a match. ``log.aliases`` also writes these names.
"""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Alias:
    """A metric of another project, computed from ours.

    Attributes:
        metrics: our metrics of a training step, to be added up.
        kind: ``'sum'``; ``'complement'``: 1 less the sum; ``'updates'``: the mean over
            the step's updates, of which the first clips nothing.
    """

    metrics: tuple[str, ...]
    kind: str = 'sum'

    def value(self, values: Mapping[str, float]) -> float | None:
        """Computes the alias from a step's metrics; ``None`` if one is absent.

        >>> Alias(('stopped',), 'complement').value({'stopped': 0.75})
        0.25
        """
        if any(name not in values for name in self.metrics):
            return None
        if self.kind == 'updates':
            parts = [
                value
                for name, value in values.items()
                if name.startswith(
                    tuple(f'{metric}_update_' for metric in self.metrics)
                )
            ]
            return sum(parts) / (len(parts) // len(self.metrics) + 1)
        total = sum(values[name] for name in self.metrics)
        return 1 - total if self.kind == 'complement' else total


# Before the names of what dynamic sampling leaves to train on.
_TRAINED = 'trained_'
_LOW, _HIGH = 'clip_fraction_low', 'clip_fraction_high'

ALIASES: Mapping[str, Mapping[str, Alias]] = {
    # TRL 1.16, GRPOTrainer. Equal names: reward, entropy, grad_norm, learning_rate.
    'trl': {
        'train/frac_reward_zero_std': Alias(('equal_reward_problems',)),
        'train/completions/mean_length': Alias(('response_length',)),
        'train/completions/clipped_ratio': Alias(('stopped',), 'complement'),
        'train/clip_ratio/low_mean': Alias((_LOW,), 'updates'),
        'train/clip_ratio/high_mean': Alias((_HIGH,), 'updates'),
        'train/clip_ratio/region_mean': Alias((_LOW, _HIGH), 'updates'),
    },
    # verl 0.9, ppo/metric_utils.py and workers/utils/losses.py.
    'verl': {
        'critic/score/mean': Alias(('reward',)),
        'response_length/mean': Alias(('response_length',)),
        'actor/pg_loss': Alias(('policy_loss',)),
        'actor/pg_clipfrac': Alias((_LOW, _HIGH), 'updates'),
        'actor/grad_norm': Alias(('grad_norm',)),
        'actor/lr': Alias(('learning_rate',)),
    },
}
"""Project -> its name of a metric -> how to compute it from ours."""


def aliased(project: str, values: Mapping[str, float]) -> dict[str, float]:
    """Computes the metrics of a step under another project's names.

    With dynamic sampling they are of the batch that is trained on, as in verl.

    Args:
        project: a key of :data:`ALIASES`; ``''``: none.
        values: our metrics of the step. Those that it lacks have no aliases.
    """
    aliases = ALIASES.get(project, {}).items()
    trained = {
        name.removeprefix(_TRAINED): value
        for name, value in values.items()
        if name.startswith(_TRAINED)
    }
    values = {**values, **trained}
    computed = {name: alias.value(values) for name, alias in aliases}
    return {name: value for name, value in computed.items() if value is not None}
