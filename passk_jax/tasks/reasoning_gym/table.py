"""The sets of reasoning-gym 0.1.25 that are used, and why each other set is not.

A set is used if two processes with different hash seeds make the same problems, and if
the package's scorer gives 1 to all right answers and to no others. The scorer of a set
in ``BY_TEXT`` compares with the stored answer. The scorer of a set in ``SCORED`` also
accepts other solutions, or other wordings of one.

The scorers of ``knights_knaves``, ``kakurasu`` and ``sokoban`` also ignore words that
are not part of a solution. These sets are used, because no such word makes a wrong
solution right.
"""

VERSION = '0.1.25'

BY_TEXT: tuple[str, ...] = (
    *('aiw', 'arc_1d', 'base_conversion', 'basic_arithmetic', 'bf'),
    *('binary_alternation', 'caesar_cipher', 'count_bits', 'count_primes'),
    *('course_schedule', 'gcd', 'largest_island', 'lcm', 'leg_counting'),
    *('letter_counting', 'mahjong_puzzle', 'maze', 'modulo_grid'),
    *('number_filtering', 'number_sequence', 'rotate_matrix', 'rotten_oranges'),
    *('simple_equations', 'simple_geometry', 'string_manipulation'),
    *('string_splitting', 'string_synthesis', 'syllogism', 'word_sequence_reversal'),
)

# Name of the set -> fields of an item's metadata that its scorer reads.
SCORED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            *('ab', 'chain_sum', 'circuit_logic', 'color_cube_rotation'),
            *('decimal_chain_sum', 'dice', 'emoji_mystery', 'family_relationships'),
            *('knights_knaves', 'manipulate_matrix', 'needle_haystack', 'path_star'),
            *('power_function', 'prime_factorization', 'products'),
            *('rectangle_count', 'self_reference', 'spell_backward', 'zebra_puzzles'),
        ),
        (),
    ),
    'calendar_arithmetic': ('task',),
    'cryptarithm': ('words_letters', 'result_letters', 'allow_leading_zero'),
    'futoshiki': ('solution',),
    'group_anagrams': ('solution',),
    'jugs': ('puzzle',),
    'kakurasu': ('row_sums', 'col_sums', 'n_rows', 'n_cols'),
    'mini_sudoku': ('solution',),
    'palindrome_generation': ('letters',),
    'palindrome_partitioning': ('solution',),
    'shortest_path': ('matrix',),
    'sokoban': ('gamestr',),
    'sudoku': ('solution',),
}

ALLOWED = tuple(sorted((*BY_TEXT, *SCORED)))

# Letters of the book that some sets take their words from.
_ACCENTS = 'àçéêëïôû'
# Name of the set -> its characters beyond ASCII. emoji_mystery has any: no alphabet.
SYMBOLS: dict[str, str] = {
    'caesar_cipher': _ACCENTS.upper(),
    'circuit_logic': '’↑↓⊕─│┌┐└┘├',
    'futoshiki': '∧∨',
    'letter_counting': _ACCENTS + _ACCENTS.upper(),
    'modulo_grid': '✅❌❔',
    'needle_haystack': '’',
    'prime_factorization': '×',
    'rectangle_count': '█',
    'simple_geometry': '°',
    'word_sequence_reversal': _ACCENTS + _ACCENTS.upper(),
}

_EXECUTES = 'its scorer evaluates the response as code'
_EXECUTES_ITEM = 'its scorer evaluates a text of the item as code'
_VARIES = 'its problems or answers differ from process to process'
_NO_ANSWER = 'it stores no answer'
_TUPLES = 'its scorer compares with tuples, which are lists after JSON'
_MORE_WORDS = 'its scorer takes more words after the right ones'

# Name of the set -> why it is not used.
LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(
        (
            *('binary_matrix', 'countdown', 'intermediate_integration', 'n_queens'),
            *('polynomial_multiplication', 'puzzle24', 'simple_integration'),
            *('spiral_matrix', 'string_insertion'),
        ),
        _EXECUTES,
    ),
    **dict.fromkeys(('bitwise_arithmetic', 'number_sorting'), _EXECUTES_ITEM),
    **dict.fromkeys(
        (
            *('codeio', 'isomorphic_strings', 'knight_swap', 'list_functions'),
            *('ransom_note', 'word_ladder'),
        ),
        _VARIES,
    ),
    **dict.fromkeys(
        ('boxnet', 'graph_color', 'propositional_logic', 'rubiks_cube', 'rush_hour'),
        _NO_ANSWER,
    ),
    **dict.fromkeys(('arc_agi', 'rearc'), _TUPLES),
    **dict.fromkeys(('letter_jumble', 'word_sorting'), _MORE_WORDS),
    'acre': 'it makes all problems of a seed at once, whatever is asked for',
    'advanced_geometry': 'its scorer refuses angles as exact as its question asks for',
    'coin_flip': 'its scorer takes 0 for any probability of at most 0.0001',
    'complex_arithmetic': 'its scorer takes nan for any number',
    'composite': 'it mixes other sets, which the task mixture does',
    'decimal_arithmetic': 'its scorer takes numbers that are off by 0.001',
    'figlet_font': 'its scorer takes ten right letters for a longer word',
    'fraction_simplification': r'its scorer takes \frac{1}{2}+1 for 1/2',
    'game_of_life': 'its scorer takes a board with too many rows and columns',
    'game_of_life_halting': 'its scorer takes any text',
    'gsm_symbolic': 'its scorer takes -5 and 5,000 for 5',
    'number_format': 'its scorer takes numbers that are off by 0.01',
    'polynomial_equations': 'its scorer reads over a root that is not a decimal number',
    'pool_matrix': 'its scorer takes numbers that are off by 1 %',
    'quantum_lock': 'its scorer keeps the light where its question says it toggles',
    'sentence_reordering': 'its stored answers put repeated words side by side',
    'survo': 'its scorer takes only one of several solutions',
    'time_intervals': 'its scorer takes 5 weeks for 5 days',
    'tower_of_hanoi': 'its scorer refuses long solutions, which its question allows',
    'tsumego': 'its scorer refuses other captures, which its question allows',
}
