"""The flags of all commands; each parameter of a command's ``main`` is a flag.

Importing this module defines no flag: :func:`parse` defines those of one command. To
add a command, write its file, and a row of :data:`TABLE` for each new flag.
"""

import dataclasses
import inspect
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from absl import flags

from passk_jax import config as configs
from passk_jax import files
from passk_jax.cli import config_file
from passk_jax.errors import InputError

_TEXT, _INT, _FLOAT = flags.ArgumentParser(), flags.IntegerParser(), flags.FloatParser()
_BOOL = flags.BooleanParser()
_REQUIRED = inspect.Parameter.empty


class _PathParser(flags.ArgumentParser):
    """Parses a file or directory; the shell does not expand ``--flag=~/name``."""

    def parse(self, argument: str) -> str:
        if '://' in argument:
            raise ValueError(files.NO_BUCKET)
        if re.search('[\ud800-\udfff]', argument):
            raise ValueError(
                'is no text in the encoding of this locale, and libraries cannot open '
                'it: set PYTHONUTF8=1, or rename it'
            )
        return os.path.expanduser(argument)


_PATH = _PathParser()

TABLE: Mapping[str, tuple[flags.ArgumentParser, str]] = {
    'config': (
        _PATH,
        'Config file, or config.py:argument; --config.<key>=<value> overrides a value.',
    ),
    'accept_loss': (
        _BOOL,
        'Resume a run although files that it wrote are gone; the log says which.',
    ),
    'workdir': (
        _PATH,
        'Run directory; train makes runs/<config.name> by default. Of a sweep: the '
        'directory of its runs.',
    ),
    'hosts': (
        _TEXT,
        "'': every worker on a TPU pod, elsewhere a single process; 'auto': one of "
        'several that JAX finds by itself (TPU pod, Slurm, Kubernetes); '
        "'address:port,count,index': one of several.",
    ),
    'expect': (
        _TEXT,
        "Processes and chips that must be there, as '4,16'; launch_tpu.sh sets it.",
    ),
    'profile': (
        _TEXT,
        "Steps that the profiler traces, end excluded: '10:12'; the trace is in "
        'profile/ of the run directory.',
    ),
    'mesh': (
        _TEXT,
        'data,fsdp,rollout,tensor, of which one may be -1; a fifth number is '
        "decode_tensor, else 0. Without the flag: the run's.",
    ),
    'model': (
        _TEXT,
        'Published model in the place of a run: a Hugging Face directory or hub name.',
    ),
    'max_response_tokens': (
        _INT,
        "Limit of a response; the run's by default.",
    ),
    'step': (_INT, 'Step of the checkpoint; the newest by default.'),
    'split': (_TEXT, 'Split of the task.'),
    'num_responses': (_INT, "Responses to each problem; the run's by default."),
    'num_problems': (_INT, "Problems of the split; 0: all. The run's by default."),
    **{
        option.name: (
            _FLOAT if option.type is float else _INT,
            f"Must {option.metadata['must']}; the run's by default.",
        )
        for option in dataclasses.fields(configs.SamplingOptions)
    },
    'out': (_PATH, 'Directory to create; it must be absent or empty.'),
    'exported': (_PATH, 'Directory that export wrote.'),
    'repo': (_TEXT, 'Repository of the Hugging Face hub, as OWNER/NAME.'),
    'private': (_BOOL, 'Make a new repository private.'),
    'peft': (_BOOL, 'Write the adapters alone, as PEFT reads them.'),
    'dtype': (_TEXT, 'Dtype of the weights; model.compute_dtype by default.'),
    'task': (
        _TEXT,
        'Name of a task, for example maze. Of evaluate: names or config files of other '
        "tasks, separated by commas; the run's task by default.",
    ),
    'overwrite': (
        _BOOL,
        'Sample again what was evaluated, and replace results of other settings. Of '
        'push: add a commit to a repository that exists.',
    ),
    'index': (_INT, 'Number of a problem in its split, from 0.'),
    'data_dir': (_PATH, 'Directory of the files of tasks; by default this one.'),
    'official': (_BOOL, "Judge by the rule of the benchmark's own verifier."),
    'input': (_PATH, 'JSON lines to read.'),
    'output': (_PATH, 'File to write.'),
    'figure': (_PATH, 'PNG to write.'),
    'topology': (_TEXT, 'Chips: v5p:4x4x4, v5e:16x16, v6e:8x8, cpu:8, gpu:h100x8.'),
    'programs': (_TEXT, 'Programs to compile, separated by commas.'),
    'fit': (_BOOL, 'Search for settings that fit and train the same.'),
    'lengths': (
        _TEXT,
        'Lengths of responses in a simulated step: constant:TOKENS, lognormal:MEAN, '
        'lognormal:MEAN,DEVIATION, or a directory rollouts/; by default the limit. '
        'Several, quoted and separated by semicolons, give a table each.',
    ),
    'eval_problems': (_INT, 'Problems of an evaluation of the simulated run.'),
    'price': (_FLOAT, 'Price of an hour of a chip.'),
    'markdown': (_PATH, 'Markdown file for a copy of the plan.'),
    'seeds': (_TEXT, "Seeds, separated by commas; the sweep's by default."),
    'seed': (_INT, 'Seed of every random draw.'),
    'faults': (_INT, 'Faults to inject, over all runs.'),
    'arms': (_TEXT, 'Arms to run and to show, separated by commas; all by default.'),
    'sweep': (_TEXT, 'Name of a sweep, whose results in two directories to compare.'),
    'measures': (_TEXT, 'Metrics of the sweep, separated by commas.'),
    'only': (_TEXT, 'Pattern of the names of runs, for example pass_at_1_*.'),
    'jobs': (_INT, 'Runs at a time; one for each usable core by default.'),
    'results': (_PATH, 'Directory of the tables and the figure.'),
    'rates': (_BOOL, 'Print the learning rates that the tuning runs choose.'),
    'setting': (_TEXT, 'Problems of the sweep, for example easy, medium or hard.'),
    'of': (_TEXT, 'Whose families to compare: puzzles or smollm2.'),
    'without': (_TEXT, 'Arms that a further column leaves out, separated by commas.'),
    'beside': (_PATH, 'Another sweep file; compares the order of its arms.'),
    'dry_run': (
        _BOOL,
        'Print the commands of the runs that are missing; run none. Of push: write the '
        'model card; upload nothing.',
    ),
    'csv': (_BOOL, 'Write the rows of the results as <name>.csv too.'),
    'list': (_BOOL, 'Print the runs and how far each is; run none.'),
}
"""Flag -> parser and help text; the parameter of ``main`` has the default."""


def parameters_of(main: Callable[..., Any]) -> dict[str, Any]:
    """Returns the flags of ``main`` with defaults; ``Parameter.empty`` if required.

    Only keyword parameters are flags. ``**options`` stands for every option of the
    sampler, with default ``None``.
    """
    parameters = {}
    for name, parameter in inspect.signature(main).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            options = dataclasses.fields(configs.SamplingOptions)
            parameters |= dict.fromkeys(option.name for option in options)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            parameters[name] = parameter.default
    return parameters


def _positional(main: Callable[..., Any]) -> str | None:
    """Returns the parameter for arguments without a flag, if ``main`` has one."""
    for name, parameter in inspect.signature(main).parameters.items():
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            return name
    return None


def parse(
    main: Callable[..., Any],
    argv: Sequence[str],
    values: flags.FlagValues = flags.FLAGS,
) -> dict[str, Any]:
    """Defines and parses the flags of ``main``, named as its parameters.

    Args:
        main: a command. A keyword parameter without a default is a required flag. A
            positional parameter takes the arguments without a flag, at least one. A
            command whose ``config`` is a ``str`` reads that file itself.
        argv: the program, then the arguments.
        values: where to define the flags.

    Returns:
        The arguments for ``main``; ``config`` is checked and frozen.

    Raises:
        InputError: an unknown flag or key, a value of the wrong type, a missing
            required flag, or an argument without a flag.
        flags.Error: absl's errors, for example for a flag without its value.
    """
    program, parameters = argv[0], parameters_of(main)
    argv = [program, *map(_with_underscores, argv[1:])]
    required = [x for x, default in parameters.items() if default is _REQUIRED]
    _define(parameters, values, program)
    unparsed = _parse_known(values, argv)
    parsed = {name: values[name].value for name in parameters}
    choices = list(parameters)
    opens = inspect.signature(main).parameters.get('config')
    path = parsed.get('config') if opens and opens.annotation is not str else None
    config = config_file.load(path) if path else None
    if config is not None and path:
        config_file.use_source(config, path, unparsed)
        choices += [f'config.{key}' for key in configs.flatten(config.to_dict())]
        overrides = config_file.override_flags(config, unparsed)
        unparsed = _parse_known(overrides, [program, *unparsed])
    absent = [name for name in required if parsed[name] in (None, '')]
    # Without --config an override is not an unknown flag.
    _reject_unknown(unparsed, choices, but='config.' if 'config' in absent else None)
    if absent:
        names, verb = ', --'.join(absent), 'are' if absent[1:] else 'is'
        raise InputError(f'--{names} {verb} required{_example(main)}')
    if empty := [name for name in parameters if parsed[name] == '' != parameters[name]]:
        raise InputError(f'--{empty[0]}= is empty; leave it out for its default')
    if positional := _positional(main):
        if not unparsed:
            raise InputError(f'{positional} are required{_example(main)}')
        parsed[positional], unparsed = unparsed, []
    _reject_buckets(parsed)
    if unparsed:
        raise InputError(
            f'arguments not understood: {unparsed}; write every flag as --name=value, '
            f'for example --config.log.tensorboard=false'
        )
    # Last: errors of the command line come before errors of the values.
    if config is not None:
        parsed['config'] = configs.from_config_dict(config)
    return parsed


def _reject_buckets(parsed: Mapping[str, Any]) -> None:
    for name, value in parsed.items():
        if files.is_bucket(value):
            raise InputError(f'{name}={value!r} {files.NO_BUCKET}')


def _define(
    parameters: Mapping[str, Any], values: flags.FlagValues, program: str
) -> None:
    """Defines the flags of these parameters, and ``--debug``."""
    serializer = flags.ArgumentSerializer()
    for name, default in parameters.items():
        parser, text = TABLE[name]
        default = None if default is _REQUIRED else default
        if parser is _BOOL:
            # Only a boolean flag may stand without a value.
            flags.DEFINE_bool(name, default, text, values, program)
        else:
            flags.DEFINE(parser, name, default, text, values, serializer, program)
    flags.DEFINE_bool('debug', False, 'Show tracebacks of errors.', values, program)


def _with_underscores(argument: str) -> str:
    """Converts ``--dry-run`` to ``--dry_run``."""
    name, equals, value = argument.partition('=')
    if name.startswith('--') and name[2:].replace('-', '_') in TABLE:
        name = f'--{name[2:].replace("-", "_")}'
    return f'{name}{equals}{value}'


def _parse_known(values: flags.FlagValues, argv: Sequence[str]) -> list[str]:
    """Parses the defined flags; returns the remaining arguments."""
    # Flags may follow other arguments, for example the value of an override.
    values.set_gnu_getopt()
    try:
        return values(argv, known_only=True)[1:]
    except flags.IllegalFlagValueError as error:
        flag = re.match(r'flag --(([^=]*)=.*?): ', str(error), re.DOTALL)
        kind = values[flag[2]].flag_type() if flag else 'string'
        # absl also gives sections and choices the type 'string'.
        is_typed = flag and kind != 'string'
        message = f'--{flag[1]} must be of type {kind}' if is_typed else str(error)
        raise InputError(message) from error
    except ValueError as error:
        raise InputError(str(error)) from error


def _reject_unknown(
    arguments: Sequence[str], choices: Collection[str], *, but: str | None
) -> None:
    for argument in arguments:
        name = argument.lstrip('-').partition('=')[0]
        if argument.startswith('-') and not (but and name.startswith(but)):
            near = [f'--{choice}' for choice in configs.nearest(name, choices)]
            hint = f'did you mean {" or ".join(near)}?' if near else 'see --help'
            raise InputError(f'unknown flag {argument}; {hint}')


def _example(main: Callable[..., Any]) -> str:
    """Returns the first example in the command's docstring, to end a message."""
    text = sys.modules[main.__module__].__doc__ or ''
    example = re.search(r'^    python -m (?:.*\\\n)*.*$', text, re.MULTILINE)
    return f', for example:\n{example[0]}' if example else ''
