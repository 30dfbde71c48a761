"""What tables and figures that set several arms side by side share."""

from collections.abc import Sequence

# Distinct with every kind of colour vision: M. Okabe and K. Ito, "Color universal
# design", 2008.
COLORS = ('#d55e00', '#0072b2', '#009e73', '#cc79a7', '#e69f00', '#56b4e9')


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table.

    >>> markdown_table(['k', 'a|b'], [['1', '0.5']])
    ['| k | a\\\\|b |', '| --- | --- |', '| 1 | 0.5 |']
    """
    lines = (head, ['---'] * len(head), *rows)
    return [f'| {" | ".join(map(_cell, line))} |' for line in lines]


def _cell(text: str) -> str:
    """A bar would end the cell."""
    return text.replace('|', '\\|')
