import subprocess
import sys


def test_the_flag_reads_a_config_file_and_overrides_of_its_keys():
    code = (
        'from absl import app\n'
        'from passk_jax.cli.flags import CONFIG\n'
        'app.run(lambda argv: print(CONFIG.value.name, CONFIG.value.seed))\n'
    )
    arguments = ('--config=configs/maze_tiny.py', '--config.seed=7')
    command = [sys.executable, '-c', code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ['maze_tiny', '7']
