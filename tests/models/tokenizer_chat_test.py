"""Chat templates as the paper's models have them: Qwen2.5, Llama 3 and R1-Distill.

The tokenizers are built here, byte by byte, and their templates are our own: as short
as they can be with what matters of the published ones (which tokens open a turn and
end it, who writes the first token, what opens an answer).
"""

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np
import pytest
import tokenizers as hf_tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from passk_jax.data.batches import evaluation_batches, make_batches, read_problems
from passk_jax.models import tokenizer as tokenizers
from passk_jax.types import Problem, Turn


@dataclasses.dataclass(frozen=True)
class Format:
    """A kind of chat tokenizer.

    Attributes:
        template: the chat template.
        special: special tokens; the first opens every text that has no template.
        plain: added tokens that are text all the same.
        eos: the tokenizer's own end token.
        generation_eos: end tokens of generation_config.json.
        prompt: what ``'Q'`` becomes.
        stops: the tokens that end a response, in order.
        tokenizer_class: of tokenizer_config.json, as published.
    """

    template: str
    special: tuple[str, ...]
    plain: tuple[str, ...]
    eos: str
    generation_eos: tuple[str, ...]
    prompt: str
    stops: tuple[str, ...]
    tokenizer_class: str


QWEN = Format(
    template=(
        "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nBe kind."
        '<|im_end|>\n{% endif %}'
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}"
        '<|im_end|>\n{% endfor %}'
        '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
    ),
    special=('<|endoftext|>', '<|im_start|>', '<|im_end|>'),
    plain=(),
    eos='<|im_end|>',
    generation_eos=('<|im_end|>', '<|endoftext|>'),
    prompt=(
        '<|im_start|>system\nBe kind.<|im_end|>\n'
        '<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n'
    ),
    stops=('<|im_end|>', '<|endoftext|>'),
    tokenizer_class='Qwen2Tokenizer',
)

# The end of the text, which the first tokenizers of Llama 3 had for an end token, is
# not what ends a turn.
LLAMA3 = Format(
    template=(
        '{% if not date_string is defined %}'
        '{% set date_string = strftime_now("%d %b %Y") %}{% endif %}'
        '{{ bos_token }}<|start_header_id|>system<|end_header_id|>\n\n'
        'Today: {{ date_string }}<|eot_id|>'
        "{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>"
        "\n\n{{ m['content'] | trim }}<|eot_id|>{% endfor %}"
        '{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>'
        '\n\n{% endif %}'
    ),
    special=(
        '<|begin_of_text|>',
        '<|end_of_text|>',
        '<|eom_id|>',
        '<|eot_id|>',
        '<|start_header_id|>',
        '<|end_header_id|>',
    ),
    plain=(),
    eos='<|end_of_text|>',
    generation_eos=('<|end_of_text|>', '<|eom_id|>', '<|eot_id|>'),
    prompt=(
        '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n'
        'Today: 26 Jul 2024<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nQ'
        '<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n'
    ),
    stops=('<|eot_id|>', '<|end_of_text|>', '<|eom_id|>'),
    tokenizer_class='PreTrainedTokenizerFast',
)

R1_DISTILL = Format(
    template=(
        '{{ bos_token }}{% for m in messages %}'
        "{% if m['role'] == 'user' %}<|User|>{{ m['content'] }}"
        "{% else %}<|Assistant|>{{ m['content'].split('</think>')[-1] }}"
        '{{ eos_token }}{% endif %}{% endfor %}'
        "{% if add_generation_prompt %}<|Assistant|>{{ '<think>\\n' }}{% endif %}"
    ),
    special=('<|begin|>', '<|end|>', '<|User|>', '<|Assistant|>'),
    plain=('<think>', '</think>'),
    eos='<|end|>',
    generation_eos=('<|end|>',),
    prompt='<|begin|><|User|>Q<|Assistant|><think>\n',
    stops=('<|end|>',),
    tokenizer_class='LlamaTokenizerFast',
)

FORMATS = {'qwen': QWEN, 'llama3': LLAMA3, 'r1_distill': R1_DISTILL}


def write(kind: Format, directory: pathlib.Path) -> hf_tokenizers.Tokenizer:
    """Writes the files as they are published; returns what tokenizer.json holds."""
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocab |= {'Ġa': len(vocab), '12': len(vocab) + 1}
    backend = hf_tokenizers.Tokenizer(models.BPE(vocab, [('Ġ', 'a'), ('1', '2')]))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(kind.special))
    backend.add_tokens(list(kind.plain))
    first = kind.special[0]
    backend.post_processor = processors.TemplateProcessing(
        single=f'{first} $A', special_tokens=[(first, backend.token_to_id(first))]
    )
    # What a trainer once left in the file must not cut a prompt.
    backend.enable_truncation(4)
    backend.save(str(directory / 'tokenizer.json'))
    ids = [backend.token_to_id(token) for token in kind.generation_eos]
    files: dict[str, Any] = {
        'tokenizer_config.json': {
            'tokenizer_class': kind.tokenizer_class,
            'bos_token': first,
            'eos_token': kind.eos,
            'chat_template': kind.template,
        },
        'generation_config.json': {'eos_token_id': ids if len(ids) > 1 else ids[0]},
        'config.json': {'model_type': 'llama' if kind is LLAMA3 else 'qwen2'},
    }
    for name, fields in files.items():
        (directory / name).write_text(json.dumps(fields))
    backend.no_truncation()
    return backend


@pytest.fixture(params=FORMATS)
def kind(request):
    return FORMATS[request.param]


@pytest.fixture
def files(kind, tmp_path):
    return write(kind, tmp_path)


@pytest.fixture
def tokenizer(files, tmp_path):
    return tokenizers.load_tokenizer(str(tmp_path))


def test_a_prompt_is_what_the_template_writes_and_has_one_first_token(kind, tokenizer):
    ids = tokenizers.encode_prompt(tokenizer, 'Q')
    assert tokenizer.decode(ids) == kind.prompt
    first = tokenizer.convert_tokens_to_ids(kind.special[0])
    assert ids.count(first) == kind.prompt.count(kind.special[0]) <= 1
    # Each special token is one token, and not its letters.
    special = set(tokenizer.convert_tokens_to_ids(list(kind.special + kind.plain)))
    written = sum(kind.prompt.count(token) for token in kind.special + kind.plain)
    assert sum(i in special for i in ids) == written > 0


def test_a_response_ends_where_the_template_ends_an_answer(kind, tokenizer, tmp_path):
    generation = tokenizers.load_generation_config(str(tmp_path))
    ids = tokenizers.stop_token_ids(tokenizer, generation)
    assert tuple(tokenizer.convert_ids_to_tokens(ids)) == kind.stops


def test_the_end_of_a_turn_is_known_without_a_generation_config(kind, tokenizer):
    first, *other_ids = tokenizers.stop_token_ids(tokenizer)
    assert tokenizer.convert_ids_to_tokens(first) == kind.stops[0]
    assert tokenizer.eos_token_id in {first, *other_ids}


def test_a_tokenizer_is_what_its_file_says(files, tokenizer, tmp_path):
    """transformers' own classes for these models would put in other parts."""
    text = " it's  a\t1234 a\n\nHé, Ħ ﬁ 12"
    expected = files.encode(text, add_special_tokens=False).ids
    assert tokenizer.encode(text, add_special_tokens=False) == expected
    decoded = tokenizers.decode_responses(
        tokenizer, np.array([[expected]]), np.array([[len(expected)]])
    )
    assert decoded == [[text]]
    # And so is the one that a run saves.
    tokenizer.save_pretrained(tmp_path / 'saved')
    again = tokenizers.load_tokenizer(str(tmp_path / 'saved'))
    assert again.encode(text, add_special_tokens=False) == expected
    assert again.chat_template == tokenizer.chat_template
    assert tokenizers.stop_token_ids(again) == tokenizers.stop_token_ids(tokenizer)


def test_a_response_keeps_its_thoughts_and_loses_its_end(tmp_path):
    write(R1_DISTILL, tmp_path)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    ids = tokenizer.encode('a</think>\\boxed{1}<|end|>', add_special_tokens=False)
    decoded = tokenizers.decode_responses(
        tokenizer, np.array([[ids]]), np.array([[len(ids)]])
    )
    assert decoded == [['a</think>\\boxed{1}']]


def test_a_prompt_is_the_same_on_another_day(tmp_path):
    write(LLAMA3, tmp_path)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    today = tokenizer.apply_chat_template(
        [{'role': 'user', 'content': 'Q'}], tokenize=False
    )
    assert '26 Jul 2024' not in today
    text = tokenizer.decode(tokenizers.encode_prompt(tokenizer, 'Q'))
    assert '26 Jul 2024' in text


def test_special_tokens_after_the_first_do_not_end_a_response(tmp_path):
    """Some templates open the next turn at once."""
    template = QWEN.template.replace(
        '{% if add_generation_prompt %}',
        '{% if not add_generation_prompt %}<|im_start|>user\n{% else %}',
    )
    write(dataclasses.replace(QWEN, template=template), tmp_path)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    stops = tokenizers.stop_token_ids(tokenizer)
    assert tokenizer.convert_ids_to_tokens(stops) == ['<|im_end|>']


@pytest.mark.parametrize(
    ('template', 'message'),
    [
        ('{{ raise_exception("only pictures") }}', 'only pictures'),
        ('{{ no_such_thing() }}', 'no_such_thing'),
    ],
)
def test_a_template_that_fails_is_a_value_error(tmp_path, template, message):
    write(dataclasses.replace(QWEN, template=template), tmp_path)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    with pytest.raises(ValueError, match=f'chat template cannot write.*{message}'):
        tokenizers.encode_prompt(tokenizer, 'Q')
    with pytest.raises(ValueError, match=f'chat template cannot write.*{message}'):
        tokenizers.stop_token_ids(tokenizer)


def test_a_system_prompt_takes_the_place_of_the_templates_own(tmp_path):
    write(QWEN, tmp_path)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    ids = tokenizers.encode_prompt(tokenizer, 'Q', system_prompt=' Be brief.')
    assert tokenizer.decode(ids) == QWEN.prompt.replace('Be kind.', ' Be brief.')
    tokenizers.check_chat(tokenizer, system_prompt=' Be brief.', template_kwargs={})


def test_the_turns_of_a_problem_stand_before_the_users_text(tmp_path):
    write(QWEN, tmp_path)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    example = Turn('user', '1+1'), Turn('assistant', '2')
    turns = Turn('system', 'Be brief.'), *example
    ids = tokenizers.encode_prompt(tokenizer, 'Q', turns=turns)
    expected = tokenizer.apply_chat_template(
        [*(turn._asdict() for turn in turns), {'role': 'user', 'content': 'Q'}],
        add_generation_prompt=True,
        tokenize=False,
    )
    assert tokenizer.decode(ids) == expected
    assert expected.index('Be brief.') < expected.index('1+1') < expected.index('Q')
    ids = tokenizers.encode_prompt(tokenizer, 'Q', turns=turns, system_prompt='Think.')
    assert tokenizer.decode(ids) == expected.replace('Be brief.', 'Think.')
    tokenizer.chat_template = None
    ids = tokenizers.encode_prompt(tokenizer, 'Q', turns=example)
    assert tokenizer.decode(ids).endswith('1+1\n\n2\n\nQ')


def test_a_template_has_the_switches_that_it_reads(tmp_path):
    """As Qwen3's does."""
    quiet = '{% if enable_thinking is defined and enable_thinking is false %}QUIET'
    kind = dataclasses.replace(QWEN, template=QWEN.template + quiet + '{% endif %}')
    write(kind, tmp_path)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    for switches, end in (({}, ''), ({'enable_thinking': False}, 'QUIET')):
        tokenizers.check_chat(tokenizer, system_prompt='', template_kwargs=switches)
        ids = tokenizers.encode_prompt(tokenizer, 'Q', template_kwargs=switches)
        assert tokenizer.decode(ids) == QWEN.prompt + end
    with pytest.raises(ValueError, match=r"has \['enable_think'\], which the chat"):
        tokenizers.check_chat(
            tokenizer, system_prompt='', template_kwargs={'enable_think': False}
        )
    with pytest.raises(ValueError, match=r'cannot write .* multiple values'):
        tokenizers.encode_prompt(
            tokenizer, 'Q', template_kwargs={'add_generation_prompt': False}
        )


def test_the_date_of_a_prompt_is_a_switch(tmp_path):
    write(LLAMA3, tmp_path)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    date = {'date_string': '1 May 2025'}
    ids = tokenizers.encode_prompt(tokenizer, 'Q', template_kwargs=date)
    assert 'Today: 1 May 2025' in tokenizer.decode(ids)


@pytest.mark.parametrize(
    ('template', 'message'),
    [
        (None, 'need a chat template, and the tokenizer .* has none'),
        (
            "{% for m in messages if m['role'] == 'user' %}{{ m['content'] }}"
            '{% endfor %}',
            "leaves out data.system_prompt='Be brief.'",
        ),
        (
            "{% if messages[0]['role'] == 'system' %}"
            '{{ raise_exception("no system") }}{% endif %}',
            'chat template cannot write.*no system',
        ),
    ],
)
def test_a_system_prompt_that_would_be_left_out_is_refused(tmp_path, template, message):
    write(dataclasses.replace(QWEN, template=template), tmp_path)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    with pytest.raises(ValueError, match=message):
        tokenizers.check_chat(tokenizer, system_prompt='Be brief.', template_kwargs={})


def test_a_template_that_leaves_the_answer_out_is_refused(tmp_path):
    write(dataclasses.replace(QWEN, template='<|im_start|>'), tmp_path)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    with pytest.raises(ValueError, match='leaves out'):
        tokenizers.stop_token_ids(tokenizer)


def test_an_unreadable_generation_config_is_refused(tmp_path):
    (tmp_path / 'generation_config.json').write_text('{')
    with pytest.raises(ValueError, match='is not JSON'):
        tokenizers.load_generation_config(str(tmp_path))


def test_a_limit_counts_the_tokens_of_the_template(kind, tokenizer):
    def encode(problem):
        return tokenizers.encode_prompt(tokenizer, problem.prompt)

    short, long = 'QQ', 'Q' * 9
    source = [Problem(i, text, {}, '') for i, text in enumerate((long, short, long))]
    limit = len(encode(source[1]))
    assert limit > len(short)

    def batches_within(overlong, limit):
        read = read_problems(source, encode, max_prompt_tokens=limit, overlong=overlong)
        batches = make_batches(read, num_prompts=1, seed=0)
        unlimited = evaluation_batches(
            source,
            encode,
            batch_size=1,
            num_problems=0,
            max_prompt_tokens=limit,
            overlong=overlong,
        )
        assert batches.num_problems == unlimited.num_problems
        assert batches.tokenized.num_dropped == unlimited.num_dropped
        return batches

    batches = batches_within('drop', limit)
    assert (batches.num_problems, batches.tokenized.num_dropped) == (1, 2)
    (problem,), prompts = batches[0]
    assert problem.prompt == short
    assert prompts.tokens[0, : prompts.lengths[0]].tolist() == encode(problem)
    with pytest.raises(ValueError, match=f'more than max_prompt_tokens={limit}'):
        batches_within('error', limit)
    with pytest.raises(ValueError, match='all 3 prompts are longer'):
        batches_within('drop', limit - 1)
