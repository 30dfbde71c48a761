"""The files of results, as sweeps on one machine and on another meet them."""

import dataclasses
import errno
import fcntl
import os
import pathlib
import shutil

import pytest

from passk_jax import sweep
from passk_jax.errors import InputError
from passk_jax.sweeps import progress, saved_results
from passk_jax.sweeps.rows import read_rows
from passk_jax.sweeps.saved_results import SavedResults
from tests import tiny
from tests.sweeps import fakes
from tests.sweeps.directories_test import finish, make_job


@pytest.fixture(scope='module')
def finished(tmp_path_factory) -> pathlib.Path:
    """A sweep of two seeds that nothing interrupted."""
    return fakes.finished(tmp_path_factory.mktemp('finished'))


def test_the_results_alone_rebuild_table_and_figure(finished, tmp_path):
    fakes.write_sweep(tmp_path)
    shutil.copytree(finished / 'results', tmp_path / 'results')
    for name in ('fake.md', 'fake.png'):
        (tmp_path / 'results' / name).unlink()
    assert fakes.run(tmp_path) == 0
    assert '  started' not in fakes.output_of(tmp_path)
    assert fakes.results(tmp_path) == fakes.results(finished)


def test_no_other_sweep_can_add_results_while_the_table_is_made(
    finished, tmp_path, monkeypatch
):
    monkeypatch.chdir(tiny.ROOT)
    shutil.copytree(finished / 'results', tmp_path / 'results')
    tables = []

    def markdown(*_) -> str:
        lock = (tmp_path / 'results' / '.fake.lock').open('w')
        with lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        tables.append(True)
        return 'made'

    monkeypatch.setattr(sweep.results, 'markdown', markdown)
    ended = sweep.main(
        config=str(fakes.write_sweep(tmp_path)),
        workdir=str(tmp_path / 'runs'),
        results=str(tmp_path / 'results'),
    )
    assert (ended, tables) == (0, [True])
    assert (tmp_path / 'results' / 'fake.md').read_text() == 'made'


def test_a_sweep_goes_on_from_the_results_of_another_machine(finished, tmp_path):
    fakes.write_sweep(tmp_path, seeds=(0,))
    assert fakes.run(tmp_path) == 0
    shutil.rmtree(tmp_path / 'runs')
    fakes.write_sweep(tmp_path)
    output = fakes.output_of(tmp_path)
    assert fakes.run(tmp_path) == 0
    assert fakes.output_of(tmp_path)[len(output) :].count('  started') == 3
    assert fakes.results(tmp_path) == fakes.results(finished)


def test_a_stage_added_later_runs_after_those_before_it(finished, tmp_path):
    path = fakes.write_sweep(tmp_path)
    text = path.read_text()
    later = ", Stage('then', {'advantage.name': 'pass_at_1'})"
    assert later in text
    path.write_text(text.replace(later, ''))
    assert fakes.run(tmp_path) == 0
    shutil.rmtree(tmp_path / 'runs')
    fakes.write_sweep(tmp_path)
    assert fakes.run(tmp_path) == 0
    assert fakes.results(tmp_path) == fakes.results(finished)


def test_results_of_another_config_are_refused(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    path = fakes.write_sweep(tmp_path, steps=5)
    arguments = {
        'config': str(path),
        'workdir': str(tmp_path / 'runs'),
        'results': str(finished / 'results'),
    }
    words = r'run pass_at_1_seed0: the results in .* train.steps: 4 there, 5 now'
    with pytest.raises(InputError, match=f'(?s){words}'):
        sweep.main(**arguments)
    shutil.copytree(finished / 'results', tmp_path / 'results')
    (tmp_path / 'results' / 'fake.configs.json').unlink()
    with pytest.raises(InputError, match=r'cannot be read .*FileNotFound'):
        sweep.main(**arguments | {'results': str(tmp_path / 'results')})
    assert not (tmp_path / 'runs').exists()


def test_another_config_is_refused_for_a_seed_without_results_too(
    finished, tmp_path, monkeypatch
):
    """Its rows would stand beside those of the first configuration, and replace it."""
    monkeypatch.chdir(tiny.ROOT)
    path = fakes.write_sweep(tmp_path, steps=5, seeds=(2,))
    words = r'run pass_at_1_seed2: the results in .* train.steps: 4 there, 5 now'
    with pytest.raises(InputError, match=f'(?s){words}'):
        sweep.main(
            config=str(path),
            workdir=str(tmp_path / 'runs'),
            results=str(finished / 'results'),
            list=True,
        )


def test_results_of_other_versions_of_a_users_file_are_refused(tmp_path, monkeypatch):
    """The configs are equal, and what they name is not."""
    monkeypatch.chdir(tiny.ROOT)
    path, plugin = fakes.write_sweep(tmp_path), tmp_path / 'est.py'
    text = path.read_text().replace("'advantage.name': name", "'advantage.name': NAME")
    path.write_text(f"NAME = '{plugin}:own'\n{text}")
    plugin.write_text('def own(rewards):\n    return rewards\n')
    assert fakes.run(tmp_path) == 0
    shutil.rmtree(tmp_path / 'runs')
    plugin.write_text('def own(rewards):\n    return -rewards\n')
    for seeds in (None, '2'):
        words = rf"came from other versions of \['{plugin}'\]: restore what"
        with pytest.raises(InputError, match=words):
            sweep.main(
                config=str(path),
                seeds=seeds,
                workdir=str(tmp_path / 'runs'),
                results=str(tmp_path / 'results'),
                list=True,
            )


def test_each_change_of_the_users_files_is_noticed(tmp_path):
    first, second = (
        dataclasses.replace(make_job(tmp_path, f'a_seed{s}', seed=s), sources=sources)
        for s, sources in enumerate([{'a.py': '1', 'b.py': '2'}, {'a.py': '1'}])
    )
    store = SavedResults(tmp_path, 'x')
    for job in (first, second):
        finish(job)
    store.add([first])
    before = files_of(tmp_path)
    for refuses in (store.add, store.attach):
        with pytest.raises(InputError, match=r"a_seed1: .* versions of \['b.py'\]"):
            refuses([second])
    assert files_of(tmp_path) == before
    store.add([dataclasses.replace(second, sources=first.sources)])
    assert store.seeds() == {0, 1}


def test_a_run_that_began_with_another_version_is_not_kept(tmp_path):
    """The file was changed while the sweep ran, or before the results were moved."""
    job = dataclasses.replace(make_job(tmp_path), sources={'a.py': '2'})
    finish(job)
    (job.run.directory / 'sources.json').write_text('{"a.py": {"a.py": "1"}}')
    with pytest.raises(InputError, match=r"\['a.py'\] of 'a.py' changed since the run"):
        SavedResults(tmp_path, 'x').add([job])
    assert not files_of(tmp_path)


def test_results_without_digests_are_read_with_a_warning(tmp_path, monkeypatch):
    job, warnings = make_job(tmp_path), []
    finish(job)
    store = SavedResults(tmp_path, 'x')
    store.add([job])
    assert b'sources' not in files_of(tmp_path)['x.configs.json']
    monkeypatch.setattr(
        saved_results.logging, 'log_first_n', lambda *args: warnings.append(args)
    )
    (attached,) = store.attach([job])
    assert (bool(attached.saved_rows), warnings) == (True, [])
    (attached,) = store.attach([dataclasses.replace(job, sources={'a.py': '1'})])
    assert attached.saved_rows
    assert warnings[0][-1] == ['a.py']


def test_another_config_is_refused_that_began_before_there_were_results(tmp_path):
    first, second = (make_job(tmp_path, f'a_seed{s}', seed=s) for s in (0, 1))
    second = dataclasses.replace(second, config={'init': {}, 'loss': 2})
    store = SavedResults(tmp_path, 'x')
    assert store.attach([first]) == [first]
    assert store.attach([second]) == [second]
    for job in (first, second):
        finish(job)
    store.add([first])
    before = files_of(tmp_path)
    words = r'(?s)run a_seed1: .* loss: absent there, 2 now'
    with pytest.raises(InputError, match=words):
        store.add([second])
    assert files_of(tmp_path) == before


def test_a_stage_without_the_next_is_not_kept(tmp_path):
    first = make_job(tmp_path, last=False)
    then = make_job(tmp_path, 'a_seed0_then', previous='a_seed0')
    store = SavedResults(tmp_path, 'x')
    finish(first)
    store.add([first, then])
    assert not files_of(tmp_path)
    finish(then)
    store.add([first, then])
    assert files_of(tmp_path).keys() == {'x.jsonl.gz', 'x.configs.json'}


def files_of(directory: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob('x.*')}


@pytest.mark.parametrize('suffix', ['.jsonl.gz', '.configs.json', '.md', '.png'])
def test_results_that_cannot_be_written_are_refused_before_any_run(
    suffix, tmp_path, monkeypatch
):
    monkeypatch.chdir(tiny.ROOT)
    monkeypatch.setattr(sweep.Runner, 'run', lambda self: pytest.fail('it runs'))
    path = tmp_path / 'results' / f'fake{suffix}'
    path.mkdir(parents=True)
    # The rows are read first; that error is an InputError.
    with pytest.raises((OSError, InputError), match=f'fake{suffix}'):
        sweep.main(
            config=str(fakes.write_sweep(tmp_path)),
            workdir=str(tmp_path / 'runs'),
            results=str(tmp_path / 'results'),
        )
    assert not (tmp_path / 'runs').exists()


def test_the_results_of_another_machine_count_at_the_end(
    finished, tmp_path, monkeypatch
):
    """Two sweeps share the results, and neither has all the directories."""
    monkeypatch.chdir(tiny.ROOT)

    def run(self) -> dict[str, str]:
        for name in ('fake.jsonl.gz', 'fake.configs.json'):
            shutil.copy(finished / 'results' / name, tmp_path / 'results')
        return {'pass_at_1_seed0': 'done'}

    monkeypatch.setattr(sweep.Runner, 'run', run)
    status = sweep.main(
        config=str(fakes.write_sweep(tmp_path)),
        only='pass_at_1_seed0',
        workdir=str(tmp_path / 'runs'),
        results=str(tmp_path / 'results'),
    )
    assert status == 0
    table = fakes.results(finished)['fake.md']
    assert (tmp_path / 'results' / 'fake.md').read_bytes() == table


def test_a_finished_seed_that_the_file_does_not_list_is_in_the_table(
    finished, tmp_path
):
    fakes.write_sweep(tmp_path, seeds=(0,))
    assert fakes.run(tmp_path, seeds='1') == 0
    assert fakes.run(tmp_path) == 0
    assert fakes.results(tmp_path) == fakes.results(finished)


def test_a_seed_that_is_not_whole_is_not_in_the_table_and_is_named(tmp_path):
    fakes.write_sweep(tmp_path, seeds=(0,))
    assert fakes.run(tmp_path, seeds='1', only='pass_at_1*') == 0
    assert fakes.run(tmp_path) == 0
    words = (
        'the table lacks seeds=[1], because these are not done: '
        "['pass_at_k_seed1', 'pass_at_k_seed1_then']"
    )
    assert fakes.output_of(tmp_path).count(words) == 1
    assert '0.' in fakes.results(tmp_path)['fake.md'].decode()


@pytest.fixture
def main(finished, tmp_path, monkeypatch):
    """Calls the command where the runs are done, and their results are not kept."""
    monkeypatch.chdir(tiny.ROOT)
    shutil.copytree(finished / 'runs', tmp_path / 'runs')
    (tmp_path / 'results').mkdir()
    return lambda: sweep.main(
        config=str(fakes.write_sweep(tmp_path)),
        workdir=str(tmp_path / 'runs'),
        results=str(tmp_path / 'results'),
    )


@pytest.mark.parametrize('times', [1, 9])
def test_results_that_cannot_be_kept_are_the_failure_of_their_run(
    times, finished, tmp_path, monkeypatch, capsys, main
):
    """Tried again with every stage, and at the end."""
    add, failures = SavedResults.add, []

    def full(self, jobs, *, of):
        if of.run.arm == 'pass_at_k' and of.run.seed == 0 and len(failures) < times:
            failures.append(of.name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        add(self, jobs, of=of)

    monkeypatch.setattr(SavedResults, 'add', full)
    assert main() == (times > 1)
    out, err = capsys.readouterr()
    assert 'pass_at_k_seed0: its results could not be kept: [Errno 28] No space' in err
    words = "the results of these could not be kept: ['pass_at_k_seed0']"
    assert (words in out) == (times > 1)
    rows = read_rows(tmp_path / 'results' / 'fake.jsonl.gz')
    saved_runs = {row['run'] for row in rows}
    assert {'pass_at_1_seed0', 'pass_at_1_seed1', 'pass_at_k_seed1'} <= saved_runs
    assert ('pass_at_k_seed0' in saved_runs) == (times == 1)
    if times == 1:
        assert fakes.results(tmp_path) == fakes.results(finished)


def test_what_killed_sweeps_left_of_their_writes_is_removed(tmp_path, main):
    results = tmp_path / 'results'
    names = ['fake.jsonl.gz', 'fake.configs.json', 'fake.md', 'fake.png']
    for name in [*names, 'other.jsonl.gz']:
        (results / f'.{name}.abcd_123.unfinished').touch()
    assert main() == 0
    leftovers = [path.name for path in results.iterdir() if 'unfinished' in path.name]
    assert leftovers == ['.other.jsonl.gz.abcd_123.unfinished']


def test_the_lock_is_one_that_a_network_file_system_has(tmp_path, monkeypatch):
    """There an exclusive lock needs a file that is open to write (man 2 flock)."""
    locked = []

    def flock(descriptor: int, operation: int) -> None:
        mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        assert operation == fcntl.LOCK_EX
        if mode == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        locked.append(descriptor)

    monkeypatch.setattr(fcntl, 'flock', flock)
    job = make_job(tmp_path)
    finish(job)
    SavedResults(tmp_path, 'x').add([job])
    assert len(locked) == 1


def test_the_files_do_not_depend_on_who_wrote_last(tmp_path):
    jobs = [
        make_job(tmp_path, f'{a}_seed{seed}', arm=a, seed=seed)
        for seed in (0, 1, 10)
        for a in ('b', 'a')
    ]
    for job in jobs:
        finish(job)
    written = []
    for number, order in enumerate([jobs, jobs[::-1], jobs[3:] + jobs[:3]]):
        directory = tmp_path / str(number)
        directory.mkdir()
        for job in order:
            # Add as a sweep of this seed alone would.
            of_seed = [other for other in jobs if other.run.seed == job.run.seed]
            SavedResults(directory, 'x').add(of_seed, of=job)
        written.append(files_of(directory))
    assert written[0] == written[1] == written[2]
    rows = read_rows(tmp_path / '1' / 'x.jsonl.gz')
    assert list(dict.fromkeys(row['run'] for row in rows)) == [j.name for j in jobs]


def test_sweeps_of_other_seeds_write_to_one_file(tmp_path):
    """Each keeps what the others wrote, whichever it knows of."""
    jobs = [make_job(tmp_path, f'a_seed{seed}', seed=seed) for seed in (0, 1, 2)]
    for job in jobs:
        finish(job, pass_at_1=job.run.seed / 10)
    store = SavedResults(tmp_path, 'x')
    for job in reversed(jobs):
        store.add([job], of=job)
    assert store.seeds() == {0, 1, 2}
    seen = store.attach(jobs)
    assert [{row['pass_at_1'] for row in job.saved_rows} for job in seen] == [
        {0.0},
        {0.1},
        {0.2},
    ]
    assert progress.line(seen[0], 'done', width=0).endswith('4/4')
    store.add(jobs)
    names = [row['run'] for row in read_rows(tmp_path / 'x.jsonl.gz')]
    assert names == sorted(names)
    assert len(names) == 3 * 4
