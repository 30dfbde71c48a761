"""``experiments/out_of_domain.py`` on evaluations whose table is known."""

import json

import pytest

from configs.smollm2 import OUT_OF_DOMAIN, SETS
from experiments import out_of_domain
from passk_jax.errors import InputError
from passk_jax.sweeps.rows import read_rows
from tests import legible


def evaluate(workdir, run, value, *, sets=OUT_OF_DOMAIN, name='out'):
    directory = workdir / run / 'evaluation' / 'by_command'
    directory.mkdir(parents=True, exist_ok=True)
    record = {
        **{'split': 'test', 'step': 200},
        'task': {'params': {'sets': dict(sets)}},
        'metrics': dict.fromkeys(out_of_domain.MEASURES, value),
    }
    (directory / f'{name}.json').write_text(json.dumps(record))


@pytest.fixture
def workdir(tmp_path):
    for seed, value in enumerate((0.25, 0.5)):
        evaluate(tmp_path, f'pass_at_1_seed{seed}', value)
        evaluate(tmp_path, f'pass_at_k_seed{seed}', value + 0.125)
    evaluate(tmp_path, 'before_seed1', 0.0625)
    # Other sets, and directories of other names.
    evaluate(tmp_path, 'pass_at_1_seed0', 0.9, sets=SETS, name='trained')
    evaluate(tmp_path, 'mine_seed0', 0.9)
    return tmp_path


def test_the_table_pairs_seeds(workdir):
    with legible.texts():
        out_of_domain.main(workdir=str(workdir), results=str(workdir))
    rows = read_rows(workdir / 'smollm2_out_of_domain.jsonl.gz')
    assert [(row['arm'], row['seed']) for row in rows] == [
        ('before', 1),
        *(('pass_at_1', 0), ('pass_at_1', 1)),
        *(('pass_at_k', 0), ('pass_at_k', 1)),
    ]
    head, _, first, *_ = (workdir / 'smollm2_out_of_domain.md').read_text().split('\n')
    assert 'Pass@4, then' not in head
    assert first == '| Pass@1 | 0.062 | 0.375 | 0.500, +0.125 [+0.125, +0.125] |'


def test_an_arm_without_a_seed_is_an_error(workdir):
    evaluate(workdir, 'overview_seed0', 0.5)
    with pytest.raises(InputError, match=r'overview has the .* cannot be paired'):
        out_of_domain.main(workdir=str(workdir), results=str(workdir))


def test_a_second_evaluation_of_a_run_is_an_error(workdir):
    evaluate(workdir, 'pass_at_k_seed1', 0.9, name='warm')
    with pytest.raises(InputError, match=r'pass_at_k_seed1 has two .* remove .*warm'):
        out_of_domain.main(workdir=str(workdir), results=str(workdir))


@pytest.mark.parametrize('arm', ['before', 'pass_at_1'])
def test_what_others_are_compared_with_must_be_there(arm):
    rows = read_rows(out_of_domain.RESULTS / 'smollm2_out_of_domain.jsonl.gz')
    with pytest.raises(InputError, match=f'no run of {arm!r}'):
        out_of_domain.table([row for row in rows if row['arm'] != arm])


def test_a_directory_without_evaluations_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r'no run in .* was evaluated on these sets'):
        out_of_domain.main(workdir=str(tmp_path), results=str(tmp_path))
