"""Usual spellings of any answer and of grids: name -> what writes one.

They are functions of an answer in the documented format.
"""

import json
import re

WIDE = {code: chr(code + 0xFEE0) for code in range(0x21, 0x7F)}


def _box(text):
    return rf'\boxed{{{text}}}'


# Around any answer.
AROUND = {
    'as documented': lambda a: a,
    'blanks at line ends': lambda a: a.replace('\n', '  \n') + '  ',
    'Windows line ends': lambda a: a.replace('\n', '\r\n') + '\r\n',
    'a byte order mark': lambda a: '\ufeff' + a,
    'no-break spaces': lambda a: a.replace(' ', '\u00a0'),
}
# Where a full stop or a box is no part of the answer.
TEXTS = {
    'a full stop': lambda a: a.rstrip('.') + '.',
    'a Chinese full stop': lambda a: a.rstrip('.') + '。',
    'bold': lambda a: f'**{a}**',
    'code': lambda a: f'`{a}`',
    'a name': lambda a: f'Answer: {a}',
    'a sentence': lambda a: f'The answer is {a}',
    'a box': _box,
    'a box in dollars': lambda a: f'${_box(a)}$',
}


def rows_of(a):
    return [line.split() for line in a.split('\n')]


def table(rows, *, rule=False, header=False):
    lines = [f'| {" | ".join(row)} |' for row in rows]
    between = '|' + '---|' * len(rows[0])
    return '\n'.join([lines[0], between, *lines[1:]] if rule else lines)


def grid(a, cell='{}', between=' ', start='', end='', line='\n'):
    rows = [between.join(cell.format(x) for x in row) for row in rows_of(a)]
    return line.join(f'{start}{row}{end}' for row in rows)


GRIDS = {
    'commas': lambda a: grid(a, between=', '),
    'commas alone': lambda a: grid(a, between=','),
    'tabs': lambda a: grid(a, between='\t'),
    'bars': lambda a: grid(a, between=' | '),
    'box bars': lambda a: grid(a, between='│', start='│', end='│'),
    'a table': lambda a: table(rows_of(a)),
    'a table with a rule': lambda a: table(rows_of(a), rule=True),
    'a frame': lambda a: (
        '+---+\n' + grid(a, between=' | ', start='| ', end=' |') + '\n+---+'
    ),
    'rules between rows': lambda a: grid(a, between=' | ', line='\n---+---\n'),
    'lists': lambda a: grid(a, between=', ', start='[', end=']'),
    'lists with commas': lambda a: grid(a, between=', ', start='[', end='],'),
    'semicolons': lambda a: grid(a, line='; '),
    'names of rows': lambda a: '\n'.join(
        f'Row {i}: {row}' for i, row in enumerate(a.split('\n'), 1)
    ),
    'semicolons in rows': lambda a: grid(a, between='; '),
    'numbered rows': lambda a: '\n'.join(
        f'{i}. {row}' for i, row in enumerate(a.split('\n'), 1)
    ),
    'HTML': lambda a: a.replace('\n', '<br>'),
    'a heading': lambda a: f'Solution:\n{a}',
    'blank lines': lambda a: a.replace('\n', '\n\n'),
    'full width': lambda a: a.translate(WIDE),
    'bold cells': lambda a: grid(a, cell='**{}**'),
}
NUMBERS = {
    'JSON': lambda a: json.dumps([[int(x) for x in row] for row in rows_of(a)]),
    'JSON in lines': lambda a: json.dumps(
        [[int(x) for x in row] for row in rows_of(a)], indent=2
    ),
    'numpy': lambda a: '[' + grid(a, start='[', end=']', line='\n ') + ']',
    'Python': lambda a: f'grid = {[[int(x) for x in row] for row in rows_of(a)]}',
    'tuples': lambda a: str(tuple(tuple(int(x) for x in row) for row in rows_of(a))),
    'an array': lambda a: f'np.array({[[int(x) for x in row] for row in rows_of(a)]})',
    'a matrix': lambda a: (
        r'\begin{bmatrix}' + grid(a, between=' & ', line=r' \\ ') + r'\end{bmatrix}'
    ),
    'quoted': lambda a: json.dumps([[*row] for row in rows_of(a)]),
    'an object': lambda a: json.dumps(
        {'grid': [[int(x) for x in row] for row in rows_of(a)]}
    ),
    'a bulleted list': lambda a: grid(a, between=', ', start='- [', end=']'),
    'named lists': lambda a: '\n'.join(
        f'Row {i} = [{", ".join(row)}]' for i, row in enumerate(rows_of(a), 1)
    ),
    'sets': lambda a: grid(a, between=', ', start='{', end='}'),
    'a true minus': lambda a: a.replace('-', '−'),
}
DIGITS = {
    'side by side': lambda a: grid(a, between=''),
    'texts in a list': lambda a: json.dumps([''.join(row) for row in rows_of(a)]),
    'boxes': lambda a: re.sub(r'^(\S+ \S+) ', r'\1 | ', a, flags=re.MULTILINE),
}
SYMBOLS = {
    'side by side': lambda a: grid(a, between=''),
    'texts in a list': lambda a: json.dumps([''.join(row) for row in rows_of(a)]),
    'JSON': lambda a: json.dumps([[*row] for row in rows_of(a)]),
    'a fence': lambda a: f'```text\n{a}\n```',
    'small': str.lower,
    'stars': lambda a: a.replace('*', '★'),
    'escaped': lambda a: a.replace('*', r'\*'),
    'middle dots': lambda a: a.replace('.', '·'),
}
