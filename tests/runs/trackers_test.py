"""What TensorBoard, Weights & Biases and trackio get of a run."""

import dataclasses
import importlib
import sys
import types

import pytest

from passk_jax.runs.trackers import import_packages, open_trackers
from tests import tiny


def _open(path, *, resume_step=0, **log):
    log = dataclasses.replace(tiny.make_config().log, **log)
    settings = {'resume_step': resume_step, 'config': {'name': 'a', 'sizes': (1, 2)}}
    return open_trackers(log, import_packages(log), path, **settings)


def _write(path, step, value, **more):
    for tracker in _open(path, **more):
        tracker.write({'train/reward': value}, step)
        tracker.close()


def test_a_run_has_no_tracker_unless_it_is_on(tmp_path):
    assert not _open(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_tensorboard_has_the_values_and_a_resumed_run_purges_later_ones(tmp_path):
    _write(tmp_path, 3, 0.25, tensorboard=True)
    _write(tmp_path, 2, 0.5, tensorboard=True, resume_step=2)
    events = tensorboard_events(tmp_path / 'tensorboard')
    scalars = [
        (event.step, value.tag, value.simple_value)
        for event in events
        for value in event.summary.value
    ]
    assert sorted(scalars) == [(2, 'train/reward', 0.5), (3, 'train/reward', 0.25)]
    starts = [e.step for e in events if e.session_log.status == 1]
    assert starts[-1] == 2


def tensorboard_events(directory):
    """Records of TFRecord files: length, its checksum, the event, its checksum."""
    from tensorboardX.proto import event_pb2

    events = []
    for path in sorted(directory.iterdir()):
        content = path.read_bytes()
        while content:
            length = int.from_bytes(content[:8], 'little')
            events.append(event_pb2.Event.FromString(content[12 : 12 + length]))
            content = content[16 + length :]
    return events


@pytest.mark.parametrize('name', ['wandb', 'trackio'])
def test_a_missing_package_says_what_to_install(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    words = rf"log\.{name}_project='p' needs .*: pip install {name} \(or set log\."
    with pytest.raises(ValueError, match=words):
        _open(tmp_path, **{f'{name}_project': 'p'})
    assert not [*tmp_path.iterdir()]


class Service:
    """A package of a service: what ``init`` and a run of it were given."""

    def __init__(self):
        self.inits, self.logged, self.finished = [], [], 0

    # Of what trackio 0.43 and wandb 0.23 take, the parameters that both have.
    def wandb(self, *, project, name, id, dir, resume, config):
        return self._init(project=project, name=name, id=id, resume=resume)

    def trackio(self, *, project, name, resume, config):
        return self._init(project=project, name=name, id=None, resume=resume)

    def _init(self, **settings):
        self.inits.append(settings)
        return self

    def log(self, metrics, step=None):
        self.logged.append((step, metrics))

    def finish(self):
        self.finished += 1


@pytest.mark.parametrize('name', ['wandb', 'trackio'])
def test_a_resumed_run_goes_on_in_the_same_place(tmp_path, monkeypatch, name):
    service = Service()
    package = types.SimpleNamespace(init=getattr(service, name))
    monkeypatch.setitem(sys.modules, name, package)
    for folder in ('a', 'a', 'b'):
        (tmp_path / folder).mkdir(exist_ok=True)
        _write(tmp_path / folder, 4, 1.5, **{f'{name}_project': 'p'})
    first, again, other = service.inits
    assert first == again
    assert first['project'] == 'p'
    assert first['resume'] == 'allow'
    assert first['name'].startswith('a')
    # The services tell runs apart by these.
    key = 'id' if name == 'wandb' else 'name'
    assert first[key] != other[key]
    assert service.logged == [(4, {'train/reward': 1.5})] * 3
    assert service.finished == 3


def test_two_runs_of_one_name_are_two_runs_of_trackio(tmp_path, monkeypatch):
    service = Service()
    package = types.SimpleNamespace(init=service.trackio)
    monkeypatch.setitem(sys.modules, 'trackio', package)
    for folder in ('a', 'b'):
        (tmp_path / folder / 'run').mkdir(parents=True)
        _write(tmp_path / folder / 'run', 0, 1.0, trackio_project='p')
    assert service.inits[0]['name'] != service.inits[1]['name']


def test_the_real_trackio_continues_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv('TRACKIO_DIR', str(tmp_path / 'trackio'))
    trackio = pytest.importorskip('trackio', reason='trackio is not installed')
    for step in (0, 1):
        _write(tmp_path, step, step / 2, trackio_project='p')
    (run,) = trackio.Api().runs('p')
    assert run.config['sizes'] == [1, 2]
    rows = importlib.import_module('trackio.sqlite_storage').SQLiteStorage.get_logs(
        'p', run.name
    )
    values = [(row['step'], row['train/reward']) for row in rows]
    assert values == [(0, 0.0), (1, 0.5)]
