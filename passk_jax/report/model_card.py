"""Writes the model card of an exported policy: README.md for the Hugging Face hub.

The head is YAML that the hub reads. The text says how the model was made, what it
scores, on what data, under which licences, and how to load it.
"""

import contextlib
import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from passk_jax.advantages import estimator_parameters
from passk_jax.config import flatten
from passk_jax.errors import InputError
from passk_jax.report.arms import markdown_table
from passk_jax.report.run_data import Row, Run, categories_of, ks_of
from passk_jax.tasks.task import About

FIGURE = 'curves.png'
_DATA_SET = re.compile(r'hf://datasets/([^/@]+/[^/@]+)@([^/@]+)')
_SETTINGS = (
    'model.source',
    *('sampling.num_rollouts', 'train.num_prompts'),
    *('train.mini_batch_prompts', 'train.steps', 'optimizer.learning_rate'),
    *('loss.clip_low', 'loss.clip_high', 'loss.kl_coef', 'sampling.temperature'),
    *('sampling.max_response_tokens', 'model.lora.rank', 'init.kind', 'seed'),
)
# Kind -> class that loads it, and class of its texts.
_LOADERS = {
    'text': ('transformers', 'AutoModelForCausalLM', 'AutoTokenizer'),
    'vision': ('transformers', 'AutoModelForImageTextToText', 'AutoProcessor'),
    'peft': ('peft', 'AutoPeftModelForCausalLM', 'AutoTokenizer'),
}
_CITATION = """\
@article{chen2025passk,
  title  = {Pass@k Training for Adaptively Balancing Exploration and Exploitation of
            Large Reasoning Models},
  author = {Chen, Zhipeng and Qin, Xiaobo and Wu, Youbin and Ling, Yue and Ye, Qinghao
            and Zhao, Wayne Xin and Shi, Guang},
  year   = {2025},
  note   = {arXiv:2508.10751},
}"""


@dataclasses.dataclass(frozen=True)
class Exported:
    """An exported model.

    Attributes:
        repo: its name on the hub, ``OWNER/NAME``.
        step: the step of its checkpoint.
        kind: ``'text'``, ``'vision'``, or ``'peft'`` for adapters alone.
        base: hub name of the base, with ``@revision`` if stated; ``''``: the model is
            from scratch, or from a directory without a known hub name.
        licence: ``license`` and ``license_*`` of the base's card; ``{}``: unknown.
        versions: package -> version.
    """

    repo: str
    step: int
    kind: str
    base: str
    licence: Mapping[str, Any]
    versions: Mapping[str, str]


def model_card(run: Run, model: Exported, tasks: Mapping[str, About]) -> str:
    """Returns the text of the card.

    Args:
        run: the run that trained the model.
        model: the model.
        tasks: name -> facts about each task that the run trained on.
    """
    parts = (
        _head(run, model),
        _summary(run, model),
        _results(run, model.step),
        _training(run, model),
        _data(run, tasks),
        _use(model),
        _licences(model),
        f'## Citation\n\n```bibtex\n{_CITATION}\n```\n',
    )
    return '\n'.join(parts)


def data_sets(run: Run) -> dict[str, str]:
    """Returns the hub's data sets that the run's task names, with their revisions."""
    return dict(_DATA_SET.findall(json.dumps(run.option('task', {}))))


def _head(run: Run, model: Exported) -> str:
    library = 'peft' if model.kind == 'peft' else 'transformers'
    vision = model.kind == 'vision'
    fields: dict[str, Any] = {
        'library_name': library,
        'pipeline_tag': 'image-text-to-text' if vision else 'text-generation',
        **model.licence,
        'tags': ['passk_jax', 'pass-at-k', 'rlvr', 'reinforcement-learning'],
    }
    if base := model.base.partition('@')[0]:
        relation = 'adapter' if model.kind == 'peft' else 'finetune'
        fields |= {'base_model': base, 'base_model_relation': relation}
    if names := sorted(data_sets(run)):
        fields['datasets'] = names
    # JSON is YAML, and quotes what YAML would misread.
    lines = [f'{key}: {json.dumps(value)}' for key, value in fields.items()]
    return '\n'.join(['---', *lines, '---', ''])


def _summary(run: Run, model: Exported) -> str:
    name = model.base.partition('@')[0]
    base = f'[{name}](https://huggingface.co/{name})' if name else 'a policy'
    if not name:
        source = run.option('model.source', '')
        base = f'the model in `{source}`' if source else 'a policy made from scratch'
    opening = 'Adapters for' if model.kind == 'peft' else 'This is'
    estimators = [
        f'`{section.get("name")}`' + (f' from step {start} on' if start else '')
        for start, section in run.advantages()
        if start < max(model.step, 1)
    ]
    return (
        f'# {model.repo.rpartition("/")[2]}\n\n{opening} {base}, trained by '
        'reinforcement learning with verifiable rewards on the task '
        f'`{run.option("task.name")}`: '
        f'step {model.step} of the run `{run.option("name")}` of passk_jax, with the '
        f'advantage {", then ".join(estimators)}.\n\n'
        f'![Curves of the run]({FIGURE})\n'
    )


def _results(run: Run, step: int) -> str:
    parts = ['## Results\n']
    for split, rows in run.evaluations.items():
        at_step = [row for row in rows if row['step'] == step]
        if at_step:
            parts += _results_of(split, rows[0], at_step[-1])
    if len(parts) == 1:
        return f'## Results\n\nThe run has no evaluation of step {step}.\n'
    parts.append(
        'Unbiased pass@k [95 % bootstrap interval over problems]. The intervals cover '
        'the choice of problems, not that of the training seed.\n'
    )
    return '\n'.join(parts)


def _results_of(split: str, first: Row, last: Row) -> list[str]:
    count = last.get('num_problems')
    size = f', {count:.0f} problems' if isinstance(count, int | float) else ''
    before = first is not last
    head = ['problems', 'measure', f'step {last["step"]}']
    head += [f'step {first["step"]}'] if before else []
    rows = []
    for category in ['', *categories_of([last])]:
        prefix = f'{category}/' if category else ''
        for k in ks_of([last]):
            name = f'{prefix}pass_at_{k}'
            if name in last:
                cells = [category or 'all', f'pass@{k}', _cell(last, name)]
                rows.append([*cells, _cell(first, name)] if before else cells)
    return [f'Split `{split}`{size}:\n', *markdown_table(head, rows), '']


def _cell(row: Row, name: str) -> str:
    if name not in row:
        return ''
    ends = [row.get(f'{name}_{end}') for end in ('low', 'high')]
    if None in ends:
        return f'{row[name]:.3f}'
    return f'{row[name]:.3f} [{ends[0]:.3f}, {ends[1]:.3f}]'


def _training(run: Run, model: Exported) -> str:
    options = {key: run.option(key, '') for key in _SETTINGS}
    options |= {f'advantage.{key}': x for key, x in _advantage(run).items()}
    options |= flatten(run.option('stages', {}), 'stages')
    rows = [[f'`{key}`', f'`{x}`'] for key, x in options.items() if x not in ('', {})]
    if revision := run.git.get('revision'):
        changes = ', with uncommitted changes' if run.git.get('dirty') else ''
        rows.append(['revision of passk_jax', f'`{revision}`{changes}'])
    rows += [[package, version] for package, version in model.versions.items()]
    table = '\n'.join(markdown_table(['setting', 'value'], rows))
    return (
        f'## Training\n\n{table}\n\n`passk_run.json` has the whole configuration. '
        'Versions of packages are those of the upload.\n'
    )


def _advantage(run: Run) -> Mapping[str, Any]:
    """Returns the estimator's name, and the parameters that the run's stages read."""
    sections = [section for _, section in run.advantages()]
    read = ['name']
    for section in sections:
        # The file of an own estimator may be elsewhere.
        with contextlib.suppress(InputError):
            read += estimator_parameters(section.get('name', ''))
    return {key: value for key, value in sections[0].items() if key in read}


def _data(run: Run, tasks: Mapping[str, About]) -> str:
    rows = [
        [f'`{name}`', about.summary, about.licence, about.source]
        for name, about in tasks.items()
    ]
    table = '\n'.join(markdown_table(['task', 'problems', 'licence', 'source'], rows))
    names = [
        f'- [{name}](https://huggingface.co/datasets/{name}), revision `{revision}`'
        for name, revision in sorted(data_sets(run).items())
    ]
    return '\n'.join([f'## Data\n\n{table}\n', *names, *([''] if names else [])])


def _use(model: Exported) -> str:
    library, network, texts = _LOADERS[model.kind]
    source = f"'{model.repo}'"
    if library == 'transformers':
        imports = f'from transformers import {network}, {texts}'
    else:
        imports = f'from {library} import {network}\nfrom transformers import {texts}'
    return (
        f'## Use\n\n```python\n{imports}\n\n'
        f'model = {network}.from_pretrained({source})\n'
        f'{"processor" if model.kind == "vision" else "tokenizer"} = '
        f'{texts}.from_pretrained({source})\n```\n\n'
        'The chat template and `generation_config.json` are those of the run.\n'
    )


def _licences(model: Exported) -> str:
    licence = model.licence.get('license')
    if licence:
        link = model.licence.get('license_link')
        where = f' ({link})' if link else ''
        text = f'The base is under `{licence}`{where}, which this model inherits.'
    elif model.base:
        text = 'The licence of the base is unknown here: see its card.'
    else:
        text = 'No licence is stated. Add `license:` to the head of this card.'
    return f'## Licence\n\n{text}\n'
