"""Answers that would run code if anything evaluated them."""

# Python, of which each would leave a file, and LaTeX that reads or writes one.
PAYLOADS = [
    "__import__('os').system('touch {path}')",
    "open('{path}', 'w')",
    "().__class__.__base__.__subclasses__() or open('{path}', 'w')",
    "exec(\"open('{path}', 'w')\")",
    "eval(compile('open(\"{path}\", \"w\")', '', 'exec'))",
    "[open('{path}', 'w') for x in (1,)]",
    "$1$ __import__('os').system('touch {path}')",
    r'\text{{__import__("os").system("touch {path}")}}',
    r'\immediate\write18{{touch {path}}}',
    r'\input{{{path}}}',
    r"204 + open('{path}', 'w')",
]
