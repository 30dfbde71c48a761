"""The puzzles by name; to add one, write a file and add a row."""

from passk_jax.tasks.enigmata import (
    arithmetic,
    binario,
    campsite,
    car_painting,
    checkmate_in_one,
    crypto,
    folio,
    full_crosswords,
    hamiltonian,
    hitori,
    kakurasu,
    knights_and_knaves,
    light_up,
    list_functions,
    magic_square,
    maze,
    minesweeper,
    navigation,
    shifts,
    skyscraper,
    slant,
    sliding,
    stack_permutation,
    star_battle,
    sudoku,
    symbolic_hard,
    tic_tac_toe,
    twiddle,
    zebra_logic,
)
from passk_jax.tasks.enigmata.files import FilePuzzle
from passk_jax.tasks.enigmata.puzzle import AnyPuzzle, Puzzle

_PUZZLES = (
    sudoku.SUDOKU2,
    sudoku.SUDOKU,
    binario.BINARIO,
    kakurasu.KAKURASU,
    hitori.HITORI,
    light_up.LIGHT_UP,
    slant.SLANT,
    minesweeper.MINESWEEPER,
    tic_tac_toe.TIC_TAC_TOE,
    skyscraper.SKYSCRAPER,
    skyscraper.SUM_SKYSCRAPER,
    magic_square.MAGIC_SQUARE,
    star_battle.STAR_BATTLE,
    campsite.CAMPSITE,
    car_painting.CAR_PAINTING,
    stack_permutation.STACK_PERMUTATION,
    sliding.EIGHT_PUZZLE,
    sliding.FIFTEEN_PUZZLE,
    twiddle.TWIDDLE,
    shifts.NINE_PUZZLE,
    shifts.SIXTEEN_PUZZLE,
    hamiltonian.HAMILTONIAN_CYCLE,
    hamiltonian.HAMILTONIAN_PATH,
    maze.MAZE,
    arithmetic.GAME24,
    arithmetic.COUNTDOWN,
    navigation.NAVIGATION,
    knights_and_knaves.KNIGHTS_AND_KNAVES,
    zebra_logic.ZEBRA_LOGIC,
    crypto.CRYPTO_KKA,
    crypto.CRYPTO_KPA,
)

_FILE_PUZZLES = (
    full_crosswords.FULL_CROSSWORDS,
    symbolic_hard.SYMBOLIC_HARD,
    list_functions.LIST_FUNCTIONS,
    checkmate_in_one.CHECKMATE_IN_ONE,
    folio.FOLIO,
)

# Name of the puzzle -> the puzzle, for those with a generator and those with files.
PUZZLES: dict[str, Puzzle] = {puzzle.name: puzzle for puzzle in _PUZZLES}
FILE_PUZZLES: dict[str, FilePuzzle] = {puzzle.name: puzzle for puzzle in _FILE_PUZZLES}
ALL_PUZZLES: dict[str, AnyPuzzle] = {**PUZZLES, **FILE_PUZZLES}
