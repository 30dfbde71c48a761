"""A reader follows ``rewards`` from the verifier to the loss by go-to-definition."""

import itertools
import pathlib

import jedi
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
MAX_CHANGES = 12

# The modules that the rewards pass through from the verifier to the loss, in order.
PATH = (
    'rollouts.verify',
    'train',
    'rollouts.estimate',
    'advantages.declarations',
    'advantages.table',
    'advantages.estimators',
    'train',
    'rollouts.dynamic_sampling',
    'train',
    'learning.update',
    'learning.batch_loss',
    'learning.losses',
)
# Steps between files: a mention, and the definition that it leads to.
MENTIONS = (
    ('train', 'responses = verbs.verify', 'rollouts.verify.Verify'),
    ('train', 'estimated = verbs.estimate', 'rollouts.estimate.Estimate'),
    (
        *('rollouts.estimate', 'advantages = estimator'),
        'advantages.declarations.AdvantageFn',
    ),
    (
        *('advantages.table', "'pass_at_1': Estimator"),
        'advantages.declarations.Estimator',
    ),
    (
        *('advantages.table', 'Estimator(estimators.pass_at_1'),
        'advantages.estimators.pass_at_1',
    ),
    None,  # The estimator returns to the loop, which called it.
    ('train', 'selection.add', 'rollouts.dynamic_sampling.Selection.add'),
    (
        *('train', 'selection.advantages'),
        'rollouts.dynamic_sampling.Selection.advantages',
    ),
    ('train', '= verbs.update', 'learning.update.Update'),
    ('learning.update', 'return self.loss', 'learning.batch_loss.Loss'),
    ('learning.batch_loss', '= losses.total_loss', 'learning.losses.total_loss'),
)
# Steps of the path inside a module.
INSIDE = (
    ('rollouts.verify', 'verdicts = verification.finish', 'Verification.finish'),
    ('rollouts.estimate', 'return _compute', '_compute'),
    ('advantages.declarations', 'advantages = self.estimator', 'AdvantageFn.estimator'),
    ('advantages.declarations', 'self.estimator.compute', 'Estimator.compute'),
    ('advantages.estimators', 'all_equal(inputs.rewards', None),
    ('learning.batch_loss', '= self.share', 'Loss.share'),
    ('learning.losses', 'surrogate = policy_loss', 'policy_loss'),
)


@pytest.fixture(scope='module')
def project():
    return jedi.Project(ROOT)


def definitions(project: jedi.Project, module: str, mention: str) -> set[str]:
    """What an editor opens at the last name of a mention, and the class of that."""
    path = ROOT / 'passk_jax' / f'{module.replace(".", "/")}.py'
    lines = path.read_text().splitlines()
    number = next(i for i, line in enumerate(lines) if mention in line)
    place = number + 1, lines[number].index(mention) + len(mention) - 1
    script = jedi.Script(path=path, project=project)
    names = [*script.goto(*place, follow_imports=True), *script.infer(*place)]
    return {str(name.full_name).removeprefix('passk_jax.') for name in names}


def test_the_path_of_the_rewards_is_short():
    assert len(PATH) - 1 <= MAX_CHANGES


def test_every_change_of_module_is_a_definition(project):
    for modules, mention in zip(itertools.pairwise(PATH), MENTIONS, strict=True):
        if mention is None:
            continue
        module, fragment, expected = mention
        other = modules[1 - modules.index(module)]
        assert expected.startswith(f'{other}.')
        assert expected in definitions(project, module, fragment), mention


def test_every_step_inside_a_module_is_a_definition(project):
    for module, fragment, expected in INSIDE:
        expected = f'{module}.{expected}' if expected else f'{PATH[3]}.Inputs.rewards'
        got = definitions(project, module, fragment)
        assert expected in got, (module, fragment, got)


def test_the_loop_makes_no_call_without_a_type():
    assert 'Callable[..., Any]' not in (ROOT / 'passk_jax' / 'train.py').read_text()
