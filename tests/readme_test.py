"""The README's example prints what its comments say, and its files are there."""

import contextlib
import io
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_the_example_prints_what_its_comments_say():
    (code,) = re.findall(
        r'```python\n(.*?)```', (ROOT / 'README.md').read_text(), re.DOTALL
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    said = [text.partition(':')[0] for text in re.findall(r'# (.*)', code)]
    assert printed.getvalue().splitlines() == said


def test_every_link_leads_somewhere():
    text = (ROOT / 'README.md').read_text()
    links = [link for link in re.findall(r'\]\(([^)]+)\)', text) if '://' not in link]
    assert links
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing
