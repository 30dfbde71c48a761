"""The errors that a command explains in a line, without a traceback."""


class InputError(ValueError):
    """Something that was asked for cannot be done; the message says what and why.

    Raised on purpose, for a value, a file or a combination of options that a person can
    change. A command prints its message alone; any other exception is a defect of the
    program and shows its traceback.
    """


class NonFiniteError(FloatingPointError):
    """A loss is not finite; the message says at which step.

    A class of its own, because numpy and JAX raise ``FloatingPointError`` too.
    """
