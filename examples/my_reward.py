"""A reward of one's own: writing in the letters that a record has.

``python my_reward.py > problems.jsonl`` makes the records.
"""

import json


def reward(response, record):
    """The share of the response that is made of the record's letters."""
    if len(response) < 4:
        return 0.0
    return sum(letter in record['letters'] for letter in response) / len(response)


if __name__ == '__main__':
    for number in range(64):
        letters = 'abcdefgh' if number % 2 else 'stuvwxyz'
        print(json.dumps({'prompt': f'{number}: {letters}', 'letters': letters}))
