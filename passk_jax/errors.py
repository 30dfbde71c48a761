"""The exception that says an error is the user's, and its message the explanation."""


class InputError(ValueError):
    """Something that was asked for cannot be done; the message says what and why.

    Raised on purpose, for a value, a file or a combination of options that a person can
    change. A command prints its message alone; any other exception is a defect of the
    program and shows its traceback.
    """
