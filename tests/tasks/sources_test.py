import hashlib
import json
import os
import sys

import numpy as np
import pyarrow
import pytest
import tensorflow_datasets as tfds
from huggingface_hub import constants
from pyarrow import parquet

from passk_jax.tasks import sources
from passk_jax.tasks.math.task import MathTask
from tests.tasks.math import toy

_COMMIT = '0123456789abcdef' * 2 + '01234567'
_RECORDS = [{'problem': 'a', 'answer': '1'}, {'problem': 'b', 'answer': '2'}]
_LINES = ''.join(json.dumps(record) + '\n' for record in _RECORDS).encode()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the hub, and no network."""
    monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(tmp_path))
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
    return tmp_path


def _store(cache, path, content, *, revision='main'):
    """Stores a file as the hub's library does: a blob, a snapshot's link, a ref."""
    folder = cache / 'datasets--some--maths'
    blob = folder / 'blobs' / hashlib.sha256(content).hexdigest()
    link = folder / 'snapshots' / _COMMIT / path
    for file in (blob, link, folder / 'refs' / revision):
        file.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    link.symlink_to(os.path.relpath(blob, link.parent))
    (folder / 'refs' / revision).write_text(_COMMIT)


def _parquet(path, rows):
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def test_a_local_file_is_read_by_its_suffix(tmp_path):
    (tmp_path / 'a.jsonl').write_bytes(_LINES)
    (tmp_path / 'b.json').write_text(json.dumps(_RECORDS))
    _parquet(tmp_path / 'c.parquet', _RECORDS)
    for name in ('a.jsonl', 'b.json', 'c.parquet'):
        source = sources.read(name, data_dir=str(tmp_path))
        assert source.records == list(enumerate(_RECORDS, start=1))
        assert source.label == name[0]
        assert sources.read(str(tmp_path / name), data_dir='/x').records


@pytest.mark.parametrize('revision', ['main', _COMMIT])
@pytest.mark.parametrize('suffix', ['jsonl', 'json', 'parquet'])
def test_a_file_of_the_hub_comes_from_its_cache(cache, suffix, revision, tmp_path):
    rows = _parquet(tmp_path / 'rows', _RECORDS).read_bytes()
    contents = {'jsonl': _LINES, 'json': json.dumps(_RECORDS).encode(), 'parquet': rows}
    _store(cache, f'data/train.{suffix}', contents[suffix])
    name = f'hf://datasets/some/maths@{revision}/data/train.{suffix}'
    source = sources.read(name, data_dir='/absent')
    assert [record for _, record in source.records] == _RECORDS
    assert (source.label, source.name) == ('train', name)


def test_a_run_trains_on_a_file_of_the_hub(cache, tmp_path):
    _store(cache, 'train.jsonl', _LINES)
    toy.write(tmp_path)
    files = ('hf://datasets/some/maths@main/train.jsonl',)
    params = MathTask.Params(**toy.PARAMS | {'train_files': files})
    problems = MathTask(params).source('train', data_dir=str(tmp_path))
    assert [p.data['answer'] for p in problems] == ['1', '2']


@pytest.mark.parametrize(
    ('name', 'message'),
    [
        ('hf://datasets/some/maths/x.jsonl', 'is not of the form hf://datasets/OWNER'),
        ('hf://some/maths@main/x.jsonl', 'is not of the form'),
        ('hf://datasets/some/maths@main/', 'is not of the form'),
        ('hf://datasets/some/maths@main/y.jsonl', 'neither cached nor fetched'),
        ('hf://datasets/some/maths@v2/x.jsonl', 'neither cached nor fetched'),
        ('hf://datasets/so..me/maths@main/x.jsonl', 'neither cached nor fetched'),
        ('hf://datasets/other/maths@main/x.jsonl', 'neither cached nor fetched'),
    ],
)
def test_a_file_that_the_hub_does_not_give_is_named(cache, name, message):
    _store(cache, 'x.jsonl', _LINES)
    with pytest.raises(ValueError, match=message):
        sources.read(name, data_dir='')


@pytest.mark.parametrize(
    ('file', 'content', 'message'),
    [
        ('a.json', b'{"data": [{"a": 1}]}', "not a list of records: .*field 'data'"),
        ('a.json', b'[', 'not JSON'),
        ('a.json', b'[' * 100_000, 'not JSON'),
        ('a.json', b'\xff', 'cannot be read'),
        ('a.parquet', b'PAR1', 'cannot be read'),
        ('a.jsonl', b'{', 'line 1: not JSON'),
    ],
)
def test_a_malformed_file_is_named(tmp_path, file, content, message):
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ValueError, match=rf'{file}.*{message}'):
        sources.read(file, data_dir=str(tmp_path))
    (tmp_path / file).unlink()
    with pytest.raises(ValueError, match=r'are absent: .* --data_dir'):
        sources.read(file, data_dir=str(tmp_path))


class SchoolMaths(tfds.core.GeneratorBasedBuilder):
    """A data set of two splits; the id of a record is a number."""

    VERSION = tfds.core.Version('1.0.0')

    def _info(self):
        text = tfds.features.Text()
        features = {'problem': text, 'id': np.int64, 'parts': {'answer': text}}
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(features),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        return {'train': self._generate_examples(6), 'test': self._generate_examples(2)}

    def _generate_examples(self, count):
        for i in range(count):
            yield i, {'problem': f'é {i}', 'id': i, 'parts': {'answer': str(i)}}


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    """The directory of a data set that TFDS prepared."""
    directory = tmp_path_factory.mktemp('tfds')
    tfds.core.utils.gcs_utils._is_gcs_disabled = True
    builder = SchoolMaths(data_dir=directory)
    builder.download_and_prepare(file_format='array_record')
    return directory


def test_a_split_of_a_tfds_data_set_is_read_as_plain_values(prepared, monkeypatch):
    monkeypatch.setattr(sources, '_CHUNK', 4)
    sources._tfds_records.cache_clear()
    source = sources.read('tfds://school_maths/1.0.0/train', data_dir=str(prepared))
    expected = [
        {'problem': f'é {i}', 'id': i, 'parts': {'answer': str(i)}} for i in range(6)
    ]
    assert [record for _, record in source.records] == expected
    assert type(source.records[0][1]['id']) is int
    assert 'tensorflow' not in sys.modules
    assert (source.label, source.unit) == ('school_maths_train', 'record')
    name = f'tfds://{prepared}/school_maths/1.0.0/test'
    assert len(sources.read(name, data_dir='/x').records) == 2


def test_a_run_trains_on_a_tfds_data_set(prepared):
    params = toy.PARAMS | {
        'train_files': ('tfds://school_maths/1.0.0/train',),
        'validation_files': (),
        'test_files': (),
        'answer_field': 'parts.answer',
    }
    task = MathTask(MathTask.Params(**params))
    problems = task.source('train', data_dir=str(prepared))
    assert [p.data['answer'] for p in problems] == list('012345')
    assert problems[3].data == {'problem': 'é 3', 'answer': '3', 'id': '3'}


def test_a_tfds_data_set_that_cannot_be_used_is_named(prepared, tmp_path):
    for name, message in (
        ('tfds://school_maths/1.0.0/dev', r"split 'dev'.*none of \['test', 'train'\]"),
        ('tfds://school_maths/2.0.0/train', 'not a prepared data set of TFDS'),
        ('tfds://train', 'not a prepared data set of TFDS'),
    ):
        with pytest.raises(ValueError, match=message):
            sources.read(name, data_dir=str(prepared))
    (tmp_path / 'dataset_info.json').write_text('{')
    with pytest.raises(ValueError, match='TFDS data set'):
        sources.read(f'tfds://{tmp_path}/train', data_dir='')
