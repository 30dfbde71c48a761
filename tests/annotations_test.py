"""The list of files whose types have errors, in pyproject.toml, only shrinks.

``make types`` fails on an error in any other file of the package.
"""

import json
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]

# The way of the data, and what it stands on: nothing here may be listed.
CHECKED = (
    *('train', 'data', 'rollouts', 'sampling', 'advantages', 'learning', 'evaluation'),
    *('types', 'masked', 'sharding', 'errors', 'files'),
)


def test_a_listed_file_has_errors_and_is_not_on_the_way_of_the_data():
    settings = tomllib.loads((ROOT / 'pyproject.toml').read_text())['tool']['pyrefly']
    listed = settings.get('project-excludes', [])
    rooms = {pathlib.Path(file).with_suffix('').parts[1] for file in listed}
    assert not rooms & set(CHECKED), 'mend these errors'
    if not listed:
        return
    result = subprocess.run(
        [
            *(str(pathlib.Path(sys.executable).with_name('pyrefly')), 'check'),
            *('--python-interpreter-path', sys.executable),
            *('--output-format', 'json', *listed),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    errors = json.loads(result.stdout)['errors']
    wrong = {error['path'] for error in errors if error['severity'] == 'error'}
    right = sorted(set(listed) - wrong)
    assert not right, f'take {right} off the list in pyproject.toml: no errors there'
