"""The errors that a command explains in one line, without a traceback."""


class InputError(ValueError):
    """The program cannot do what was asked; the message says what and why.

    Raise it for a value, a file or a combination of options that the user can change. A
    command prints only its message; other exceptions are bugs and show a traceback.
    """


class NonFiniteError(FloatingPointError):
    """A loss is not finite; the message says at which step.

    It has its own class, because numpy and JAX raise ``FloatingPointError`` too.
    """
