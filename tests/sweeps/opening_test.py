import dataclasses
import json
import pathlib

import pytest

from passk_jax import config as configs
from passk_jax.errors import InputError
from passk_jax.sweeps import Arm
from passk_jax.sweeps.commands import runs_of
from passk_jax.sweeps.opening import Job, open_runs
from tests import tiny
from tests.sweeps.declarations_test import make_sweep


@pytest.fixture(autouse=True)
def in_the_root(monkeypatch):
    monkeypatch.chdir(tiny.ROOT)


def opened(root: pathlib.Path, *overrides, **changes) -> list[Job]:
    """The jobs of the seed 0 of arms with these overrides."""
    if overrides:
        arms = [
            Arm(f'x{i}', f'X{i}', 'tests/tiny.py', x) for i, x in enumerate(overrides)
        ]
        changes |= {'arms': tuple(arms), 'baseline': 'x0'}
    sweep = make_sweep(**changes)
    return open_runs(runs_of(sweep, root, (0,)), sweep)


def test_a_job_knows_its_last_step_and_what_is_evaluated_there(tmp_path):
    (job,) = opened(tmp_path, {'train.steps': 7})
    assert (job.name, job.steps) == ('x0_seed0', 7)
    assert job.splits == ('validation', 'test')


def test_what_decides_the_bits_of_a_warm_start_decides_who_shares_it(tmp_path):
    lora = {'rank': 2, 'alpha': 4.0, 'targets': ('q_proj',), 'source': 'adapters'}
    same = [
        {'advantage.name': 'pass_at_1'},
        {'train.steps': 7, 'optimizer.b2': 0.9},
        {f'model.lora.{name}': value for name, value in lora.items()}
        | {'model.frozen_dtype': 'bfloat16'},
    ]
    different = [
        {'init.warm_start.steps': 3},
        {'model.arch.mlp_dim': 16},
        {'model.attention': 'plain'},
        {'mesh.fsdp': 1},
        {'sampling.max_response_tokens': 6},
        {'task.params.seed': 1},
        {'data.overlong': 'drop'},
    ]
    first, *later = (job.warm_start for job in opened(tmp_path, {}, *same, *different))
    assert first
    assert later[: len(same)] == [first] * len(same)
    assert len({first, *later[len(same) :]}) == 1 + len(different)
    (job,) = opened(tmp_path, {'init.kind': 'scratch'})
    assert job.warm_start == job.first_policy == ''


def test_adapters_begin_with_the_policy_of_the_warm_start_unless_they_change_it(
    tmp_path,
):
    new = {'rank': 2, 'alpha': 4.0, 'targets': ('q_proj',)}
    new = {f'model.lora.{name}': value for name, value in new.items()}
    jobs = opened(
        tmp_path,
        *({}, new, new | {'model.lora.rank': 3}),
        *(new | {'model.lora.source': 'a'}, new | {'model.lora.source': 'b'}),
        new | {'model.frozen_dtype': 'bfloat16'},
    )
    assert len({job.warm_start for job in jobs}) == 1
    first, *later = (job.first_policy for job in jobs)
    assert later[:2] == [first] * 2
    assert len({first, *later[2:]}) == 4


def test_runs_of_two_seeds_share_nothing(tmp_path):
    sweep = make_sweep()
    one, *_, other = open_runs(runs_of(sweep, tmp_path, (0, 1))[::3], sweep)
    assert one.warm_start != other.warm_start


@pytest.mark.parametrize(
    ('overrides', 'changes', 'words'),
    [
        ({'advantage.kk': 1}, {}, 'run x0_seed0: .*did you mean advantage.k'),
        ({'advantage.k': 5}, {}, 'run x0_seed0: '),
        ({'task.name': 'x'}, {}, 'run x0_seed0: '),
        ({}, {'measures': {'pass_at_3': ''}}, r"measures \['pass_at_3'\] are none of"),
        ({}, {'split': 'tests'}, "split='tests' is not evaluated"),
        ({'eval.final_split': ''}, {}, "split='test' is not evaluated at the end"),
        ({'eval.every': 0}, {}, "curves='validation' is not evaluated"),
    ],
)
def test_what_a_run_would_refuse_is_refused(overrides, changes, words, tmp_path):
    with pytest.raises(InputError, match=words):
        opened(tmp_path, overrides, **changes)
    assert not any(tmp_path.iterdir())


def test_a_category_and_a_verifier_have_measures_too(tmp_path):
    assert opened(tmp_path, {}, measures={'3x3/pass_at_4': '', 'verifier_timeouts': ''})


def begin(root: pathlib.Path, name: str, **changes) -> None:
    """Leaves what a run with these changes leaves when it begins."""
    config = dataclasses.replace(tiny.make_config(**changes), stage=0)
    (root / name).mkdir()
    (root / name / 'config.json').write_text(configs.to_json(config))
    (root / name / 'metrics.jsonl').write_text('')


def test_a_directory_must_be_of_this_run(tmp_path):
    begin(tmp_path, 'x0_seed0', advantage__k=3)
    assert opened(tmp_path, {'advantage.k': 3})
    # Where it runs may change.
    assert opened(tmp_path, {'advantage.k': 3, 'mesh.fsdp': 1})
    with pytest.raises(
        InputError, match=r'x0_seed0: .*\n *advantage.k: 3 there, 2 now'
    ):
        opened(tmp_path, {})
    # Before it has begun, its config may change.
    (tmp_path / 'x0_seed0' / 'metrics.jsonl').unlink()
    assert opened(tmp_path, {})


def test_a_later_stage_has_the_number_that_its_run_took(tmp_path):
    """tests/tiny.py has stage 0; -1 is open until the run begins."""
    begin(tmp_path, 'x0_seed0')
    path = tmp_path / 'x0_seed0' / 'config.json'
    values = json.loads(path.read_text())
    values |= {'stage': 1}
    values['init'] |= {'kind': 'checkpoint', 'checkpoint': 'x'}
    path.write_text(json.dumps(values))
    overrides = {'init.kind': 'checkpoint', 'init.checkpoint': 'x'}
    assert opened(tmp_path, overrides | {'stage': -1})
    with pytest.raises(InputError, match='stage: 1 there, 2 now'):
        opened(tmp_path, overrides | {'stage': 2})


def test_a_run_that_began_with_another_version_of_a_users_file_is_refused(tmp_path):
    plugin = tmp_path / 'own.py'
    plugin.write_text('def own(rewards):\n    return rewards\n')
    overrides = {'advantage.name': f'{plugin}:own'}
    (job,) = opened(tmp_path, overrides)
    assert list(job.sources) == [str(plugin)]
    job.run.directory.mkdir()
    (job.run.directory / 'metrics.jsonl').touch()
    sources = job.run.directory / 'sources.json'
    sources.write_text(json.dumps({str(plugin): {'own.py': job.sources[str(plugin)]}}))
    assert opened(tmp_path, overrides) == [job]
    sources.write_text(json.dumps({str(plugin): {'own.py': 'other'}}))
    with pytest.raises(InputError, match=r"run x0_seed0: \['own.py'\] of .* changed"):
        opened(tmp_path, overrides)
