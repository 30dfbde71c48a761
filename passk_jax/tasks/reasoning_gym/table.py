"""Which sets of reasoning-gym 0.1.25 are used, and why each other is not.

A set is used if the package itself scores it by comparing texts with the one stored
answer, and if two processes with different hash seeds make the same problems.
"""

VERSION = '0.1.25'

ALLOWED: tuple[str, ...] = (
    *('aiw', 'arc_1d', 'base_conversion', 'basic_arithmetic', 'bf'),
    *('binary_alternation', 'caesar_cipher', 'count_bits', 'count_primes'),
    *('course_schedule', 'gcd', 'largest_island', 'lcm', 'leg_counting'),
    *('letter_counting', 'mahjong_puzzle', 'maze', 'modulo_grid'),
    *('number_filtering', 'number_sequence', 'rotate_matrix', 'rotten_oranges'),
    *('simple_equations', 'simple_geometry', 'string_manipulation'),
    *('string_splitting', 'string_synthesis', 'syllogism', 'word_sequence_reversal'),
)

_EXECUTES = 'its scorer evaluates the response as code'
_VARIES = 'its problems or answers differ from process to process'
_NO_ANSWER = 'it stores no answer'
_OWN_SCORER = 'its own scorer accepts more than the stored answer'

# Name of the set -> why it is left out.
LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(
        (
            *('binary_matrix', 'countdown', 'intermediate_integration', 'n_queens'),
            *('polynomial_multiplication', 'puzzle24', 'simple_integration'),
            *('spiral_matrix', 'string_insertion'),
        ),
        _EXECUTES,
    ),
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
    **dict.fromkeys(
        (
            *('ab', 'advanced_geometry', 'arc_agi', 'bitwise_arithmetic'),
            *('calendar_arithmetic', 'chain_sum', 'circuit_logic', 'coin_flip'),
            *('color_cube_rotation', 'complex_arithmetic', 'cryptarithm'),
            *('decimal_arithmetic', 'decimal_chain_sum', 'dice', 'emoji_mystery'),
            *('family_relationships', 'figlet_font', 'fraction_simplification'),
            *('futoshiki', 'game_of_life', 'game_of_life_halting', 'group_anagrams'),
            *('gsm_symbolic', 'jugs', 'kakurasu', 'knights_knaves', 'letter_jumble'),
            *('manipulate_matrix', 'mini_sudoku', 'needle_haystack', 'number_format'),
            *('number_sorting', 'palindrome_generation', 'palindrome_partitioning'),
            *('path_star', 'polynomial_equations', 'pool_matrix', 'power_function'),
            *('prime_factorization', 'products', 'quantum_lock', 'rearc'),
            *('rectangle_count', 'self_reference', 'sentence_reordering'),
            *('shortest_path', 'sokoban', 'spell_backward', 'sudoku', 'survo'),
            *('time_intervals', 'tower_of_hanoi', 'tsumego', 'word_sorting'),
            'zebra_puzzles',
        ),
        _OWN_SCORER,
    ),
    'acre': 'it makes all problems of a seed at once, whatever is asked for',
    'composite': 'it mixes other sets, which the task mixture does',
}
