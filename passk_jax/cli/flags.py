"""The flag ``--config`` of the commands that start from a config file."""

from ml_collections import config_flags

CONFIG = config_flags.DEFINE_config_file('config', None, 'Path of the config file.')
