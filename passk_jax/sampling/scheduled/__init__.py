"""Sampling in which a waiting rollout takes the row of one that has ended.

grid.py decides which row decodes what, device.py decodes, host.py joins the two. These
letters add to those of types.py:

    G  slots, each with a prompt: of a cell in grid.py, of all cells elsewhere
    K  rows of a slot, each with a rollout: of a cell in grid.py, else of all cells
    R  shards of the rollouts; in types.py, rows that responses are packed into
    W  prompts of a window, which get the next slots

``shards`` alone means those of the batch. A *cell* is the part of the grid on one shard
of the batch and one shard of the rollouts.
"""
