"""Advantages of one's own. ``--config.advantage.name=my_advantage.py:my_curve``"""


def my_curve(num_correct, num_rollouts, easy=0.5):
    """A curve: REINFORCE with a baseline, and nothing on problems that are easy."""
    rate = num_correct / num_rollouts
    if rate > easy:
        return 0.0, 0.0
    return 1 - rate, -rate


def shorter_is_better(rewards, lengths):
    """Any arrays, as JAX traces them: long responses have to be better."""
    value = rewards - 0.01 * lengths
    return value - value.mean(axis=-1, keepdims=True)
