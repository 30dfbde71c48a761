"""Writes the report's HTML around its charts: page, style, tables and responses.

Escapes text from policies and data sets. The page loads nothing: it has one style
sheet, inline SVG and no script.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from passk_jax.report.run_data import Row, Run, categories_of, ks_of
from passk_jax.tasks import drawing_of

_MOST_TEXT = 4000
_SHORT_TEXT = 60
_FACTS = {
    'reward': 'reward {:.2f}',
    'advantage': 'advantage {:+.3f}',
    'length': '{:.0f} tokens',
}

STYLE = """
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#1d2433;--soft:#667085;
--edge:#e3e7ee;--wall:#3d4759;--floor:#fbfcfd;--right:#2b9e4b;--wrong:#e8590c;
--given:#e4e9f1;--hidden:#c3ccd9;--lit:#ffe58a;--new:#0b5cad;--bad:#ffd9c4}
@media(prefers-color-scheme:dark){:root{--page:#12151b;--card:#1b2029;--text:#e6e9ef;
--soft:#98a2b3;--edge:#2d3440;--wall:#0b0d12;--floor:#39424f;--right:#4cc36c;
--wrong:#ff8a4c;--given:#262d38;--hidden:#5b6777;--lit:#7a6512;--new:#8cc8ff;
--bad:#74391c}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:28px;margin:0;letter-spacing:-.02em}
h2{font-size:19px;margin:38px 0 12px}
h3{font-size:15px;margin:22px 0 8px;color:var(--soft);font-weight:600}
p.lead{margin:4px 0 14px;color:var(--soft)}
.card p{margin:0 0 10px}
.chips{display:flex;flex-wrap:wrap;gap:8px}
.chips span{background:var(--card);border:1px solid var(--edge);border-radius:8px;
padding:4px 10px}
.chips b{font-weight:600}.chips i{font-style:normal;color:var(--soft);margin-right:6px}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(340px,1fr));gap:14px}
.card,.chart{background:var(--card);border:1px solid var(--edge);border-radius:12px;
padding:14px 16px;margin:0}
.chart figcaption{font-weight:600;margin-bottom:2px}
.chart svg{width:100%;height:auto;display:block;stroke-linejoin:round}
.chart text{font-family:inherit!important}
.empty{color:var(--soft);text-align:center;padding:60px 0;margin:0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:6px 12px;text-align:right;border-bottom:1px solid var(--edge);
white-space:nowrap}
th{font-weight:600;color:var(--soft);font-size:13px}
th:first-child,td:first-child{text-align:left}
tr:last-child td{border-bottom:0}
tr.all td{font-weight:600}
td small{display:block;font-weight:400;color:var(--soft);font-size:12px}
.up{color:var(--right)}.down{color:var(--wrong)}
.problem{margin-bottom:14px}
.problem header{display:flex;flex-wrap:wrap;gap:4px 16px;align-items:baseline;
margin-bottom:10px}
.problem header b{font-size:15px}.problem header span{color:var(--soft)}
.responses{display:grid;grid-template-columns:repeat(auto-fill,minmax(165px,1fr));
gap:14px}
.responses.texts{grid-template-columns:repeat(auto-fill,minmax(340px,1fr))}
.responses figure{margin:0;min-width:0}
.responses figcaption{font-size:12.5px;color:var(--soft);margin-top:5px;line-height:1.4}
.responses .tag{font-weight:600}
.tag.right{color:var(--right)}.tag.wrong{color:var(--wrong)}
.maze{display:block;width:100%;height:auto;border-radius:6px}
.maze .floor{fill:var(--floor)}.maze .wall{fill:var(--wall)}
.maze .start{fill:#5c7cfa}.maze .end{fill:#d6a50b}
.maze text{font:700 10.5px system-ui,sans-serif;fill:#fff}
.maze .path,.maze .cross,.board .path,.board .cross{fill:none;
stroke-width:3.4;stroke-linecap:round;stroke-linejoin:round}
.right .path{stroke:var(--right)}.wrong .path{stroke:var(--wrong)}
.right .tip{fill:var(--right)}.wrong .tip{fill:var(--wrong)}
.maze .cross,.board .cross{stroke:#e03131;stroke-width:3}
.board{display:block;width:100%;height:auto;font:600 9.5px system-ui,sans-serif}
.board text{text-anchor:middle;fill:var(--text)}
.board .free,.board .given,.board .wall,.board .hidden,.board .lit,.board .picked,
.board .start,.board .end{stroke:var(--hidden);stroke-width:.6}
.board .free{fill:var(--floor)}.board .given{fill:var(--given)}
.board .wall{fill:var(--wall)}.board .hidden{fill:var(--hidden);stroke:var(--card)}
.board .lit{fill:var(--lit)}.board .picked{fill:var(--new)}
.board .start{fill:#5c7cfa}.board .end{fill:#d6a50b}
.board text.wall,.board text.start,.board text.end{fill:#fff}
.board text.picked{fill:var(--floor)}
.board text.free,.board text.given{fill:var(--text)}
.board text.clue{font-weight:400}
.board text.note{font-weight:400;font-size:7px}
.board text.index{font-weight:400;fill:var(--soft)}
.board text.new{fill:var(--new)}
.board .shape{fill:var(--text);stroke:var(--text);stroke-width:1.2;stroke-linecap:round;
stroke-linejoin:round}
.board .shape.new{fill:var(--new);stroke:var(--new)}
.board .shape.on_wall{fill:#fff;stroke:#fff}
.board .bad{fill:var(--bad);stroke:var(--wrong);stroke-width:1}
.board .bad.dark{fill:none;stroke-width:1.6}
.board .flag{fill:var(--wrong)}
.board .lines{fill:none;stroke:var(--text);stroke-width:1.2}
.board .frame{fill:none;stroke-width:2}
.board.right .frame{stroke:var(--right)}
.board.wrong .frame{stroke:var(--wrong);stroke-dasharray:5 2.5}
.board .corner{fill:var(--floor);stroke:var(--soft);stroke-width:.6}
.board .corner.bad{fill:var(--bad);stroke:var(--wrong);stroke-width:1.2}
.responses:has(.board.wide){grid-template-columns:repeat(auto-fill,minmax(290px,1fr))}
.pictures{display:flex;flex-wrap:wrap;gap:8px;margin:6px 0}
.pictures img{min-width:120px;max-width:256px;image-rendering:pixelated}
code,pre{font:12px/1.45 ui-monospace,SFMono-Regular,Menlo,monospace}
code{overflow-wrap:anywhere;color:var(--text)}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:6px 0 0;max-height:420px;
overflow:auto}
summary{cursor:pointer;color:var(--soft)}
"""


def page(title: str, body: str) -> str:
    """Returns the whole HTML document."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n'
        f'<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n'
    )


def chips(pairs: Mapping[str, Any]) -> str:
    """Returns labelled values in a row."""
    spans = (
        f'<span><i>{escape(key)}</i><b>{escape(str(value))}</b></span>'
        for key, value in pairs.items()
    )
    return f'<div class="chips">{"".join(spans)}</div>'


def results_table(rows: list[Row]) -> str:
    """Returns a table of pass@k of the first and last row, overall and by category."""
    first, last = rows[0], rows[-1]
    ks = ks_of([last])
    since = f', from step {first["step"]}' if len(rows) > 1 else ''
    titles = [f'step {last["step"]}{since}', *(f'Pass@{k}' for k in ks)]
    head = ''.join(f'<th>{title}</th>' for title in titles)
    lines = []
    for category in ['', *categories_of([last])]:
        prefix = f'{category}/' if category else ''
        cells = ''.join(_cell(first, last, f'{prefix}pass_at_{k}') for k in ks)
        name = escape(category) or 'all problems'
        kind = '' if category else ' class=all'
        lines.append(f'<tr{kind}><td>{name}</td>{cells}</tr>')
    body = f'<thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody>'
    return f'<div class="card scroll"><table>{body}</table></div>'


def _cell(first: Row, last: Row, name: str) -> str:
    value = last.get(name)
    if value is None:
        return '<td></td>'
    lines = []
    if last.get(f'{name}_low') is not None and last.get(f'{name}_high') is not None:
        lines.append(f'{last[f"{name}_low"]:.3f} to {last[f"{name}_high"]:.3f}')
    if first is not last and first.get(name) is not None:
        change = value - first[name]
        kind = 'up' if change >= 0 else 'down'
        line = f'{first[name]:.3f} <span class="{kind}">{change:+.3f}</span>'
        lines.append(line.replace('-', '−'))
    small = ''.join(f'<small>{line}</small>' for line in lines)
    return f'<td>{value:.3f}{small}</td>'


def problem_card(run: Run, responses: Sequence[Row], *, most: int) -> str:
    """Returns a card of one problem with its most frequent responses, right ones first.

    Args:
        run: the run, whose task may draw responses.
        responses: the rows of all responses to the problem.
        most: the most different responses to show.
    """
    row = responses[0]
    num_right = sum(bool(r.get('correct')) for r in responses)
    draw = drawing_of(run.option('task.name', ''))
    groups: dict[str, list[Row]] = {}
    for response in responses:
        groups.setdefault(str(response.get('response', '')), []).append(response)
    by_count = sorted(groups.values(), key=len, reverse=True)
    right = [group for group in by_count if group[0].get('correct')]
    wrong = [group for group in by_count if not group[0].get('correct')]
    num_wrong = min(len(wrong), max(most // 2, most - len(right)))
    chosen = right[: most - num_wrong] + wrong[:num_wrong]
    pictures = [_picture(group[0], draw) for group in chosen]
    figures = ''.join(map(_response, chosen, pictures))
    return (
        '<div class="card problem"><header>'
        f'<b>Problem {escape(str(row.get("problem_id", "?")))}</b>'
        f'<span>{escape(str(row.get("category", "")))}</span>'
        f'<span>{num_right} of {len(responses)} right</span>'
        f'<span>{len(groups)} different responses</span></header>'
        f'{_pictures(responses)}'
        f'<div class="responses{"" if any(pictures) else " texts"}">{figures}</div>'
        f'<details><summary>prompt</summary><pre>'
        f'{_clipped(row.get("prompt", ""))}</pre></details></div>'
    )


def _pictures(responses: Sequence[Row]) -> str:
    """Returns the pictures of a problem, which one of its rows has."""
    rows = [
        x for row in responses for x in [row.get('pictures')] if isinstance(x, list)
    ]
    images = (
        f'<img src="{escape(address)}" alt="picture {number}">'
        for number, address in enumerate(rows[0] if rows else [], 1)
        if isinstance(address, str) and address.startswith('data:image/')
    )
    return f'<div class="pictures">{"".join(images)}</div>' if rows else ''


def _picture(row: Row, draw: Callable[..., str] | None) -> str:
    """Draws a response; returns ``''`` if the task cannot draw it."""
    if draw is not None:
        # Rollouts of another version may not be drawable; their text is still shown.
        with contextlib.suppress(IndexError, KeyError, TypeError, ValueError):
            parsed, correct = str(row.get('parsed', '')), bool(row.get('correct'))
            return draw(row['data'], parsed, correct=correct)
    return ''


def _response(group: Sequence[Row], picture: str) -> str:
    row = group[0]
    correct = bool(row.get('correct'))
    facts = [f'× {len(group)}'] if len(group) > 1 else []
    for name, form in _FACTS.items():
        if isinstance(row.get(name), int | float):
            facts.append(form.format(row[name]).replace('-', '−'))
    if row.get('rewarded') and not correct:
        facts.append('rewarded as noise')
    if row.get('stopped') is False:
        facts.append('cut off')
    text = str(row.get('response', ''))
    block = f'<code>{escape(text) or "(empty)"}</code>'
    if len(text) > _SHORT_TEXT:
        beginning = escape(' '.join(text[:_SHORT_TEXT].split()))
        block = f'<details><summary><code>{beginning}…</code></summary>'
        block += f'<pre>{_clipped(text)}</pre></details>'
    kind = 'right' if correct else 'wrong'
    return (
        f'<figure>{picture}<figcaption><span class="tag {kind}">{kind}</span> '
        f'{" · ".join(facts)}<br>{block}</figcaption></figure>'
    )


def _clipped(text: Any) -> str:
    text = str(text)
    more = len(text) - _MOST_TEXT
    ellipsis = f' … {more} characters more' if more > 0 else ''
    return escape(text[:_MOST_TEXT]) + ellipsis
