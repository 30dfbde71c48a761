"""When a run evaluates and saves; tests/setup/checks_test.py has the splits."""

from tests import tiny


def test_what_may_be_the_best_is_saved():
    def saved(best: str) -> list[int]:
        config = tiny.make_config(
            checkpoint__every=4, checkpoint__keep_best=best, eval__every=3
        )
        return [
            step
            for step in range(8)
            if config.checkpoint.is_due(
                step, last=7, evaluated=config.eval.splits_due(step, last=7)
            )
        ]

    assert saved('') == [0, 4, 7]
    assert saved('validation/pass_at_1') == [0, 3, 4, 6, 7]
