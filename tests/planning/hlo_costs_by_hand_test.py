"""The recorded plans of Qwen2.5-7B on 64 chips of v5p, beside counts by hand.

The sizes are those of its config.json. No compiler is needed: the plan has what it
compiled.
"""

import pathlib
import re

import pytest

PLANS = pathlib.Path(__file__).resolve().parents[2] / 'experiments' / 'plans'
# By program. Tables from before 2026-11-26 count twice what is fetched ahead.
FILES = {
    'train': 'enigmata_qwen25_7b_v5p.md',
    'decode': 'enigmata_qwen25_7b_v5p_decode.md',
}
L, D, F, J, C, H, V = 28, 3584, 18944, 28, 4, 128, 152064
P, N, S, T, CHIPS = 128, 32, 4096, 4096, 64
# Of a block, on as many devices (learning/blocks.py): responses at their limit.
ROWS = 4
UNITS = {'k': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12, 'P': 1e15}

# Two FLOPs a weight and token: queries, outputs, keys, values; gate, up, down.
LAYER = 2 * D * (2 * J * H + 2 * C * H + 3 * F)
HEAD = 2 * D * V
# Scores and sums of values of a pair of tokens, in all heads.
PAIR = 4 * J * H


def plan(row, program):
    """A number of the plan's table of a program."""
    text = (PLANS / FILES[program]).read_text('utf-8')
    cells = [
        [cell.strip() for cell in line.strip('|').split('|')]
        for line in text.splitlines()
        if line.startswith('| ')
    ]
    column = cells[0].index(program)
    (value,) = (line[column] for line in cells if line[0] == row)
    number, unit = re.fullmatch(r'([\d.]+) ([kMGTP])B?', value).groups()
    return float(number) * UNITS[unit]


def test_the_bytes_of_a_decode_step():
    """Weights and filled slots once, and the logits of the vocabulary twice.

    Those of attention stay on the chip.
    """
    rows = P * N // CHIPS
    # Matrices, norms and biases; the head, but of the token table only the rows.
    weights = 2 * (L * (LAYER // 2 + 2 * D + (J + 2 * C) * H) + D + HEAD // 2)
    token = 2 * 2 * C * H * L
    # A chip has the prompts of its 8 problems, and 8 of their responses each.
    slots = token * (8 * S + rows * T)
    want = weights + slots + 2 * 4 * rows * V
    assert plan('memory traffic', 'decode') == pytest.approx(want, rel=0.03)


def test_the_flops_of_a_decode_step():
    rows = P * N // CHIPS
    want = rows * (L * LAYER + HEAD + L * PAIR * (S + T))
    assert plan('FLOP', 'decode') == pytest.approx(want, rel=0.01)


def test_the_flops_of_a_train_step():
    """A pass forward, one that recomputes the layers, and one backward.

    Backward, a product has two, and splash attention five where forward has two. The
    product with the last matrix of a layer is not recomputed. Three of four
    mini-batches are scored, which is a pass more. A prompt runs in each of its blocks,
    and attends to itself on each of the devices that share its rollouts.
    """
    blocks, shares = N // ROWS, ROWS
    # The last layer needs only the keys and values of a prompt.
    prompt = blocks * (L - 1) * S
    products = prompt * LAYER + blocks * S * 2 * D * 2 * C * H + N * L * T * LAYER
    last = 2 * D * F * (prompt + N * L * T)
    pairs = shares * prompt * (S + 1) / 2 + N * L * (T * S + T * (T + 1) / 2)
    head = N * T * HEAD
    learned = 4 * products - last + 4.5 * PAIR * pairs + 4 * head
    scored = products + PAIR * pairs + head
    want = P * (learned + 3 / 4 * scored) / CHIPS
    assert plan('FLOP', 'train') == pytest.approx(want, rel=0.01)
