"""Additions that a newcomer may make to this project, one of each kind.

``tests/one_place_test.py`` makes a copy of the tree with these additions. Each touches
the one or two files that CONTRIBUTING.md names for its kind, and no test.
"""

import dataclasses
import pathlib
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Addition:
    """Changes of one kind.

    Attributes:
        files: path -> the text of a new file.
        rows: path -> pairs of a fragment that occurs there once, and the text to insert
            after it.
    """

    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rows: Mapping[str, tuple[tuple[str, str], ...]] = dataclasses.field(
        default_factory=dict
    )

    def apply(self, root: pathlib.Path) -> None:
        """Makes the changes in a copy; ValueError if one does not fit."""
        for path, text in self.files.items():
            if (root / path).exists():
                raise ValueError(f'{path} is there already')
            (root / path).write_text(text)
        for path, pairs in self.rows.items():
            text = (root / path).read_text()
            for fragment, row in pairs:
                if text.count(fragment) != 1:
                    raise ValueError(f'{fragment!r} must occur once in {path}')
                text = text.replace(fragment, fragment + row)
            (root / path).write_text(text)


ESTIMATOR = Addition(
    rows={
        'passk_jax/advantages/estimators.py': (
            (
                'from passk_jax.advantages.declarations import Inputs\n',
                '''

def clipped_grpo(inputs: Inputs, *, bound: float) -> Float[Array, 'P N']:
    """GRPO, whose advantages are at most a bound away from 0."""
    return jnp.clip(pass_at_1(inputs), -bound, bound)
''',
            ),
        ),
        'passk_jax/advantages/table.py': (
            (
                'ESTIMATORS: dict[str, Estimator] = {\n',
                """\
    'clipped_grpo': Estimator(
        estimators.clipped_grpo,
        ('rewards',),
        (Parameter('bound', 2.0, 'largest absolute advantage', above=0),),
        centered=False,
    ),
""",
            ),
        ),
    },
)

TASK = Addition(
    files={
        'passk_jax/tasks/bit_parity.py': '''\
"""Whether a row of bits has an odd number of ones."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from passk_jax.config.ranges import count
from passk_jax.errors import InputError
from passk_jax.tasks.task import GENERATED, OURS, About, Task
from passk_jax.types import Problem, Verdict


@dataclasses.dataclass(frozen=True)
class Params:
    """How many bits a problem has; the last of four problems is for tests."""

    num_bits: int = count(1, 20)


class BitParityTask(Task):
    """The response must be ``1`` for an odd number of ones, and ``0`` for an even."""

    name = 'bit_parity'
    splits = ('train', 'test')
    Params: ClassVar[type] = Params
    alphabet = '01\\n'
    about = About(
        summary='The parity of a row of bits.',
        size='2^n rows of n bits',
        licence=OURS,
        source=GENERATED,
        example={'num_bits': 6},
    )

    def source(self, split: str, *, data_dir: str) -> Sequence[Problem]:
        """Every row of bits, in two splits."""
        if split not in self.splits:
            raise InputError(f'split {split!r} is none of {self.splits}')
        size = self.params.num_bits
        rows = [f'{number:0{size}b}' for number in range(2**size)]
        chosen = [x for i, x in enumerate(rows) if (i % 4 == 3) == (split == 'test')]
        problems = map(self.parse_problem, chosen)
        return [dataclasses.replace(x, id=i) for i, x in enumerate(problems)]

    @staticmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """Reads a row of bits."""
        if not isinstance(record, str) or not record or set(record) - {'0', '1'}:
            raise InputError(f'{record!r} is no row of bits')
        answer = str(record.count('1') % 2)
        return Problem(0, f'{record}\\n', {'answer': answer}, f'{len(record)} bits')

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """Compares the text with the parity."""
        parsed = response.strip()
        correct = parsed == problem.data['answer']
        return Verdict(correct, parsed, None if correct else 'another parity')
''',
    },
    rows={
        'passk_jax/tasks/__init__.py': (
            (
                'TASKS: dict[str, str] = {\n',
                "    'bit_parity': 'passk_jax.tasks.bit_parity:BitParityTask',\n",
            ),
        ),
    },
)

METRIC = Addition(
    rows={
        'passk_jax/evaluation/evaluate.py': (
            (
                'PROBLEM_METRICS: dict[str, ProblemMetric] = {\n',
                """\
    # The longest response to a problem, in tokens.
    'longest_response': ProblemMetric(lambda responses: responses.lengths.max(axis=1)),
""",
            ),
            (
                """\
ANSWER_METRICS: dict[
    str, Callable[[list[list[str]], np.ndarray], dict[Any, np.ndarray]]
] = {
""",
                """\
    # The first of all responses is right.
    'first_of': lambda _, correct: {correct.shape[1]: correct[:, 0]},
""",
            ),
        ),
    },
)

FAMILY = Addition(
    files={
        'passk_jax/models/families/seed_oss.py': '''\
"""Seed-OSS: bias in QKV and nowhere else; the dropout of its file is for training."""

from passk_jax.models.families.family import Family

FAMILY = Family(
    model_type='seed_oss',
    architecture='SeedOssForCausalLM',
    pieces={'qkv_bias': True, 'qk_norm': False},
    fixed={
        'hidden_act': 'silu',
        'attention_bias': True,
        'attention_out_bias': False,
        'attention_dropout': 0.1,
        'residual_dropout': 0.1,
        'mlp_bias': False,
        'pretraining_tp': 1,
    },
)
''',
    },
    rows={
        'passk_jax/models/families/table.py': (
            ('    qwen3_vl_moe,', '\n    seed_oss,'),
            ('(gemma3_text, olmo3, smollm3', ', seed_oss'),
        ),
    },
)

CONFIG = Addition(
    files={
        'configs/less_clipping.py': '''\
"""Mazes with a little less clipping. Does it matter? I have not run it yet."""

from configs import maze_tiny


def get_config():
    config = maze_tiny.get_config()
    config.name = 'less clipping'
    config.loss.clip_high = 0.25
    return config
''',
        'configs/ablations/larger_groups.py': '''\
"""Larger groups, on mazes."""

from configs import maze_tiny


def get_config():
    config = maze_tiny.get_config()
    config.name = 'larger groups'
    config.advantage.k = 8
    return config
''',
    },
)

ADDITIONS = {
    'estimator': ESTIMATOR,
    'task': TASK,
    'metric': METRIC,
    'family': FAMILY,
    'config': CONFIG,
}
