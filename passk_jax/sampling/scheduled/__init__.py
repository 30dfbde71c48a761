"""Sampling in which a waiting rollout takes the row of one that has ended.

grid.py decides who decodes where, device.py decodes, host.py joins the two. The letters
beside those of types.py:

    G  slots, each with a prompt: of a cell in grid.py, of all cells elsewhere
    K  rows of a slot, each with a rollout, counted likewise
    R  shards of the rollouts; in types.py, rows that responses are packed into
    W  prompts of a window, which get the next slots

``shards`` alone are those of the batch. A *cell* is the grid of one shard of both.
"""
