"""A function that workers of the tests judge with: the answer says what it does."""

import contextlib
import os
import signal
import subprocess
import sys
import time


def judge(problem: str, answer: str) -> bool:
    """Whether the answer is the problem, after what the answer asks for."""
    verb, _, argument = answer.partition(':')
    if verb == 'sleep':
        time.sleep(float(argument))
    elif verb == 'loop':
        # One call into C, in which no Python signal handler runs.
        return bool(10**10**9)
    elif verb == 'kill':
        os.kill(os.getpid(), signal.SIGKILL)
    elif verb == 'exit':
        sys.exit(0)
    elif verb == 'raise':
        raise ValueError(answer)
    elif verb == 'allocate':
        return bool(bytearray(int(argument)))
    elif verb == 'print':
        print('["returned", true]', flush=True)
    elif verb == 'modules':
        return argument in sys.modules
    elif verb == 'environ':
        return os.environ.get(argument) == problem
    elif verb == 'reply':
        # A hostile function that finds the pipe and guesses the request's number.
        for line in argument.split(';'):
            for descriptor in range(3, 20):
                with contextlib.suppress(OSError):
                    os.write(descriptor, line.encode() + b'\n')
    elif verb == 'later':
        # It replies once more, when another question is being judged.
        if not os.fork():
            time.sleep(0.5)
            judge(problem, 'reply:' + argument)
            os._exit(0)
        return False
    elif verb == 'spawn':
        where, _, how = argument.partition(';')
        settings = {'start_new_session': True} if how else {}
        child = subprocess.Popen(['sleep', '300'], **settings)
        with open(where, 'a') as file:
            file.write(f'{child.pid}\n')
        if how == 'crash':
            os.kill(os.getpid(), signal.SIGKILL)
        return True
    elif verb == 'pid':
        with open(argument, 'a') as file:
            file.write(f'{os.getpid()}\n')
        return True
    return problem == answer
