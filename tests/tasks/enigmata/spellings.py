"""Usual spellings of the answers of every puzzle: name -> what writes one.

They are functions of an answer in the documented format.
"""

import ast
import json
import re

from tests.tasks.enigmata.grid_spellings import (
    DIGITS,
    GRIDS,
    NUMBERS,
    SYMBOLS,
    TEXTS,
    WIDE,
    grid,
    rows_of,
    table,
)


def _pairs(a):
    return ast.literal_eval(a) if a.startswith('[') else []


def _joined(form, between):
    return lambda a: (
        between.join(form.format(*pair) for pair in _pairs(a)) if _pairs(a) else a
    )


CELLS = {
    'no list': _joined('({}, {})', ', '),
    'blanks between': _joined('({},{})', ' '),
    'a line each': _joined('({}, {})', '\n'),
    'a line each, no brackets': _joined('{}, {}', '\n'),
    'semicolons': _joined('({}, {})', '; '),
    'bullets': _joined('- ({}, {})', '\n'),
    'numbered': lambda a: (
        '\n'.join(f'{i}. {pair}' for i, pair in enumerate(_pairs(a), 1)) or a
    ),
    'words': _joined('(row {}, column {})', ', '),
    'letters': _joined('R{}C{}', ', '),
    'JSON': lambda a: json.dumps(_pairs(a)) if _pairs(a) else a,
    'a set': lambda a: '{' + a[1:-1] + '}' if _pairs(a) else a,
    'a comma more': lambda a: a[:-1] + ',]' if _pairs(a) else a,
    'full width': lambda a: a.translate(WIDE),
    'assigned': lambda a: f'cells = {a}' if _pairs(a) else a,
    'named': lambda a: f'Black cells (row, column): {a}' if _pairs(a) else a,
    'a table': lambda a: (
        table([['Row', 'Column'], *([str(x), str(y)] for x, y in _pairs(a))], rule=True)
        if _pairs(a)
        else a
    ),
    'with and': _joined('({}, {})', ' and '),
    'objects': _joined('{{"row": {}, "col": {}}}', ', '),
    'quoted pairs': _joined('"({}, {})"', ', '),
    'a set in LaTeX': lambda a: rf'$\{{{a[1:-1]}\}}$' if _pairs(a) else a,
}
WAYS = {
    'arrows': lambda a: a.replace('->', ' → '),
    'long arrows': lambda a: a.replace('->', ' --> '),
    'double arrows': lambda a: a.replace('->', ' => '),
    'blanks around': lambda a: a.replace('->', ' -> '),
    'LaTeX': lambda a: a.replace('->', r' \rightarrow '),
    'then': lambda a: a.replace('->', ' then '),
    'commas': lambda a: a.replace('->', ', '),
    'lines': lambda a: a.replace('->', '\n'),
    'a list': lambda a: f'[{a.replace("->", ", ")}]' if '(' in a else a,
    'JSON': lambda a: (
        f'[{a.replace("->", ", ").replace("(", "[").replace(")", "]")}]'
        if '(' in a
        else a
    ),
    'square brackets': lambda a: a.replace('(', '[').replace(')', ']'),
    'full width': lambda a: a.translate(WIDE) if '(' in a else a,
}
INTEGERS = {
    'no list': lambda a: a.strip('[]'),
    'blanks': lambda a: a.replace(',', ''),
    'blanks alone': lambda a: a.strip('[]').replace(',', ''),
    'no blanks': lambda a: a.replace(' ', ''),
    'a tuple': lambda a: a.replace('[', '(').replace(']', ')'),
    'semicolons': lambda a: a.replace(',', ';'),
    'a line each': lambda a: a.strip('[]').replace(', ', '\n'),
    'a comma more': lambda a: a.replace(']', ',]'),
    'quoted': lambda a: re.sub(r'([0-9]+)', r'"\1"', a),
    'full width': lambda a: a.translate(WIDE),
    'assigned': lambda a: f'order = {a}' if '[' in a else a,
}
ORDERS = INTEGERS | {
    'arrows': lambda a: a.strip('[]').replace(', ', ' -> '),
    'true arrows': lambda a: a.strip('[]').replace(', ', '→'),
    'dashes': lambda a: a.strip('[]').replace(', ', '-'),
    'a list of arrows': lambda a: a.replace(', ', ' → '),
}
OPERATIONS = {
    'no quotes': lambda a: a.replace('"', '') if '[' in a else a,
    'single quotes': lambda a: a.replace('"', "'"),
    'curly quotes': lambda a: re.sub('"([^"]*)"', '“\\1”', a),
    'no list': lambda a: a.strip('[]'),
    'bare': lambda a: a.strip('[]').replace('"', ''),
    'blanks': lambda a: a.strip('[]').replace('"', '').replace(',', ''),
    'a line each': lambda a: a.strip('[]').replace('"', '').replace(', ', '\n'),
    'numbered': lambda a: (
        '\n'.join(f'{i}. {x}' for i, x in enumerate(json.loads(a), 1))
        if '[' in a
        else a
    ),
    'bullets': lambda a: '\n'.join(f'- {x}' for x in json.loads(a)) if '[' in a else a,
    'arrows': lambda a: a.strip('[]').replace('"', '').replace(', ', ' -> '),
    'small': str.lower,
    'semicolons': lambda a: a.replace(',', ';'),
    'JSON in lines': lambda a: json.dumps(json.loads(a), indent=1) if '[' in a else a,
    'full width': lambda a: a.translate(WIDE),
}
SHIFTS = {
    'commas in moves': lambda a: re.sub('([RC][0-9])([0-9])', r'\1,\2', a),
    'blanks in moves': lambda a: re.sub('([RC])([0-9])([0-9])', r'\1 \2 \3', a),
    'calls': lambda a: re.sub('([RC])([0-9])([0-9])', r'\1(\2,\3)', a),
    'an object': lambda a: f'{{"moves": {a}}}' if '[' in a else a,
}
PUSHES = {
    'no brackets': lambda a: a.replace('()', ''),
    'words': lambda a: re.sub(r'\(([0-9]+)\)', r' \1', a).replace('()', ''),
}
_NAMES = {'U': 'Up', 'D': 'Down', 'L': 'Left', 'R': 'Right'}
_ARROWS = {'U': '↑', 'D': '↓', 'L': '←', 'R': '→'}


def _moves(spelling, between):
    return lambda a: a if ' ' in a else between.join(spelling[x] for x in a)


_LETTERS = {x: x for x in 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'}
MOVES = {
    'small': str.lower,
    'commas': _moves(_LETTERS, ', '),
    'arrows between': _moves(_LETTERS, ' -> '),
    'dashes': _moves(_LETTERS, '-'),
    'lines': _moves(_LETTERS, '\n'),
    'words': _moves(_NAMES, ', '),
    'numbered': lambda a: (
        a if ' ' in a else '\n'.join(f'{i}. {_NAMES[x]}' for i, x in enumerate(a, 1))
    ),
    'small words': lambda a: _moves(_NAMES, ' ')(a).lower(),
    'words in lines': _moves(_NAMES, '\n'),
    'words and arrows': _moves(_NAMES, ' → '),
    'arrows': _moves(_ARROWS, ''),
    'arrows apart': _moves(_ARROWS, ' '),
    'a list': lambda a: a if ' ' in a else json.dumps([*a]),
    'quoted': lambda a: f'"{a}"',
    'full width': lambda a: a.translate(WIDE),
}
LETTERS = {
    'small': str.lower,
    'blanks': lambda a: ' '.join(a),
    'commas': lambda a: ', '.join(a),
    'arrows': lambda a: ' -> '.join(a),
    'true arrows': lambda a: '→'.join(a),
    'dashes': lambda a: '-'.join(a),
    'a list': lambda a: json.dumps([*a]),
    'quoted': lambda a: f'"{a}"',
    'full width': lambda a: a.translate(WIDE),
    'groups of five': lambda a: re.sub('(.....)', r'\1 ', a),
}
WORDS = {
    'small': str.lower,
    'capitals': str.upper,
    'quoted': lambda a: f'"{a}"',
    'text': lambda a: rf'\text{{{a}}}',
    'a box of text': lambda a: rf'\boxed{{\text{{{a}}}}}',
    'full width': lambda a: a.translate(WIDE),
}


def _signs(a, times='*', minus='-', over='/'):
    claim = 'cannot' in a
    return a if claim else a.replace('*', times).replace('-', minus).replace('/', over)


def _equals(text):
    return lambda a: a if 'cannot' in a else text.format(a)


def expressions(target):
    return {
        'equal': _equals(f'{{}} = {target}'),
        'equal at once': _equals(f'{{}}={target}'),
        'the target first': _equals(f'{target} = {{}}'),
        'signs': lambda a: _signs(a, '×', '−', '÷'),
        'signs and equal': lambda a: _equals(f'{{}} = {target}')(
            _signs(a, '×', '−', '÷')
        ),
        'dots': lambda a: _signs(a, '·', '–', '∕'),
        'an x': lambda a: _signs(a, ' x '),
        'LaTeX': lambda a: _signs(a, r' \times ', '-', r' \div '),
        'LaTeX dots': lambda a: '$$' + _signs(a, r' \cdot ') + '$$',
        'large brackets': lambda a: a.replace('(', r'\left(').replace(')', r'\right)'),
        'square brackets': lambda a: a.replace('(', '[').replace(')', ']'),
        'blanks': lambda a: a if 'cannot' in a else ' '.join(re.findall(r'\d+|\S', a)),
        'full width': lambda a: a.translate(WIDE),
        'a chain': _equals(f'{{}} = {target} * 1 = {target}'),
        'a name': _equals('Expression: {}'),
    }


def _zebra(form, between, line='\n', start='', end=''):
    def spell(a):
        rows = [[x.strip() for x in row.strip('|').split('|')] for row in a.split('\n')]
        lines = [form.format(name, between.join(x)) for name, *x in rows]
        return start + line.join(lines) + end

    return spell


TABLES = {
    'a rule': lambda a: a.replace('\n', '\n|---|---|---|\n', 1),
    'a header': lambda a: f'| Category | 1 | 2 |\n|:--|:-:|:-:|\n{a}',
    'bold names': _zebra('| **{}** | {} |', ' | '),
    'bold cells': lambda a: re.sub(r'(\w+)', r'**\1**', a),
    'no blanks': lambda a: a.replace(' ', ''),
    'small': str.lower,
    'indented': lambda a: '  ' + a.replace('\n', '\n  '),
    'no outer bars': _zebra('{} | {}', ' | '),
    'lines as in the question': _zebra('{}: {}', ', '),
    'lists': _zebra('{}: [{}]', ', '),
    'bullets': _zebra('- **{}:** {}', ', '),
    'commas': _zebra('{}, {}', ', '),
    'box bars': lambda a: a.replace('|', '│'),
    'JSON rows': lambda a: json.dumps(
        [[x.strip() for x in row.strip('|').split('|')] for row in a.split('\n')]
    ),
    'JSON': _zebra('"{}": ["{}"]', '", "', ',\n', '{', '}'),
}
BOARDS = {
    'no quotes': lambda a: a.replace('""', '_').replace('"', ''),
    'dots': lambda a: a.replace('""', '.').replace('"', ''),
    'dashes': lambda a: a.replace('""', '-').replace('"', ''),
    'small': str.lower,
    'JSON': lambda a: json.dumps([[x.strip('"') for x in row] for row in rows_of(a)]),
    'Python': lambda a: str([[x.strip('"') for x in row] for row in rows_of(a)]),
    'lists': lambda a: grid(a, between=', ', start='[', end=']'),
    'commas': lambda a: grid(a, between=', '),
    'a table': lambda a: table([[x.strip('"') for x in row] for row in rows_of(a)]),
    'a table with a rule': lambda a: table(
        [[x.strip('"') for x in row] for row in rows_of(a)], rule=True
    ),
    'bars': lambda a: '\n---+---+---\n'.join(
        ' | '.join(x.strip('"') or ' ' for x in row) for row in rows_of(a)
    ),
    'side by side': lambda a: '\n'.join(
        ''.join(x.strip('"') or '_' for x in row) for row in rows_of(a)
    ),
    'curly quotes': lambda a: re.sub('"([^"]*)"', '“\\1”', a),
    'emoji': lambda a: a.replace('X', '❌').replace('O', '⭕'),
    'full width': lambda a: a.translate(WIDE),
}
CROSSWORDS = {
    'capitals': lambda a: a.replace('across', 'Across').replace('down', 'Down'),
    'bold': lambda a: a.replace('across:', '**Across:**').replace('down:', '**Down:**'),
    'bullets': lambda a: '- ' + a.replace('\n', '\n- '),
    'numbered': lambda _: 'Across:\n1. CAT\n2. TEN\n\nDown:\n1. CUT\n2. TIN',
    'JSON': lambda _: '{"across": ["CAT", "TEN"], "down": ["CUT", "TIN"]}',
    'JSON in lines': lambda _: json.dumps(
        {'across': ['CAT', 'TEN'], 'down': ['CUT', 'TIN']}, indent=2
    ),
    'lists': lambda _: 'across: [CAT, TEN]\ndown: [CUT, TIN]',
    'small': str.lower,
    'semicolons': lambda a: a.replace(',', ';'),
    'blanks': lambda a: a.replace('\n', '\n\n').replace(':', ' : '),
    'a full stop': lambda a: a + '.',
    'full width': lambda a: a.translate(WIDE),
}
CHESS = {
    'no mark': lambda a: a.rstrip('#'),
    'plus': lambda a: a.replace('#', '++'),
    'check': lambda a: a.replace('#', '+'),
    'a number': lambda a: f'2... {a}',
    'a number at once': lambda a: f'2...{a}',
    'praise': lambda a: a + '!',
    'mate': lambda a: a.replace('#', ' mate'),
    'full width': lambda a: a.translate(WIDE),
    'quoted': lambda a: f'"{a}"',
}
_LISTS = ('hitori', 'kakurasu', 'light_up', 'minesweeper')
_DIGIT_GRIDS = ('sudoku', 'sudoku2', 'binario', 'skyscraper', 'sum_skyscraper')
FORMS = {
    **dict.fromkeys(_DIGIT_GRIDS, GRIDS | NUMBERS | DIGITS),
    'symbolic_hard': GRIDS | NUMBERS | DIGITS,
    'magic_square': GRIDS | NUMBERS,
    'slant': GRIDS
    | NUMBERS
    | {
        'diagonals': lambda a: a.replace('-1', '\\').replace('1', '/'),
        'diagonals side by side': lambda a: (
            a.replace('-1', '\\').replace('1', '/').replace(' ', '')
        ),
        'diagonals in JSON': lambda a: json.dumps(
            [[{'1': '/', '-1': '\\'}[x] for x in row] for row in rows_of(a)]
        ),
        'drawn': lambda a: a.replace('-1', '╲').replace('1', '╱'),
    },
    **dict.fromkeys(('star_battle', 'campsite'), GRIDS | SYMBOLS),
    **dict.fromkeys(_LISTS, TEXTS | CELLS),
    **dict.fromkeys(('twiddle', 'maze'), TEXTS | WAYS),
    **dict.fromkeys(
        ('car_painting', 'hamiltonian_cycle', 'hamiltonian_path'), TEXTS | ORDERS
    ),
    'big_bench_symbolic': TEXTS | INTEGERS,
    'stack_permutation': TEXTS | OPERATIONS | PUSHES,
    **dict.fromkeys(('nine_puzzle', 'sixteen_puzzle'), TEXTS | OPERATIONS | SHIFTS),
    **dict.fromkeys(('eight_puzzle', 'fifteen_puzzle'), TEXTS | MOVES),
    'natural_language_navigation': TEXTS | LETTERS,
    **dict.fromkeys(('crypto_KKA', 'crypto_KPA'), TEXTS | LETTERS),
    **dict.fromkeys(('knights_and_knaves', 'FOLIO'), TEXTS | WORDS),
    'game24': TEXTS | expressions(24),
    'countdown': TEXTS,
    'zebra_logic': TABLES,
    'tic_tac_toe': BOARDS,
    'full_crosswords': CROSSWORDS,
    'checkmate_in_one': TEXTS | CHESS,
}
