"""The paper's configs, end to end, with a tiny model in the format of the hub."""

import pytest

from configs import enigmata, math
from passk_jax import config as configs
from tests import tiny
from tests.models.hf.source import make_source
from tests.tasks.math import toy

# Everything else is the paper's.
SMALL = {
    'stage': 0,
    'model.compute_dtype': 'float32',
    'mesh.fsdp': 1,
    'mesh.rollout': 1,
    'mesh.tensor': 1,
    'mesh.decode_tensor': 0,
    'sampling.num_rollouts': 4,
    'sampling.max_response_tokens': 8,
    'train.steps': 2,
    'train.num_prompts': 4,
    'train.mini_batch_prompts': 2,
    'train.micro_batch_prompts': 2,
    'eval.num_problems': 4,
    'eval.num_responses': 4,
    'eval.batch_size': 4,
    'eval.bootstrap_samples': 10,
    'log.rollouts_every': 1,
    'log.tensorboard': False,
}


def run(config, source, workdir, **changes):
    """Trains; returns the rollouts of the first step."""
    make_source(source, 'qwen2', max_position_embeddings=4608)
    config.update_from_flattened_dict(SMALL | {'model.source': str(source)} | changes)
    assert tiny.run(configs.from_config_dict(config), workdir)
    steps = [line['step'] for line in tiny.metrics(workdir, 'train')]
    assert steps == [0, 1]
    assert tiny.metrics(workdir, config.eval.split)
    return tiny.read_lines(workdir / 'rollouts' / 'step_00000000.jsonl')


@pytest.mark.slow
def test_enigmata(tmp_path):
    """A minute: every puzzle and level is made."""
    config = enigmata.get_config('model=qwen25_7b')
    config.task.params.update(train_count=2, test_count=1)
    rollouts = run(config, tmp_path / 'source', tmp_path / 'run')
    assert len(rollouts) == 16
    for rollout in rollouts:
        assert 'The puzzle:' in rollout['prompt']
        assert rollout['data']['level'] in config.task.params.levels


@pytest.mark.slow
def test_mathematics(tmp_path):
    config = math.get_config('model=llama31_8b')
    toy.write(tmp_path)
    config.task.params.update(toy.PARAMS)
    rollouts = run(
        config,
        tmp_path / 'source',
        tmp_path / 'run',
        **{'data.dir': str(tmp_path), 'train.num_prompts': 2, 'eval.num_problems': 1},
    )
    # After the instruction of OlymMATH.
    problems = {rollout['prompt'].split('\n\n')[1] for rollout in rollouts}
    assert problems <= {record['problem'] for record in toy.RECORDS['train']}
    assert tiny.metrics(tmp_path / 'run', 'train')[0]['verifier_timeouts'] == 0
