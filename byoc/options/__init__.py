"""What an option is: declared once, as a field of a dataclass, with its type, default, sentence and range.

A function of options takes such a dataclass (``entry.py``); its signature, its checks and the table in its docstring
(``table.py``), the flags of the commands (``flags.py``) and the text for a cache's key (``key.py``) are made from the
declarations. The options themselves are declared beside what takes them: ``byoc/driver/options.py`` and
``byoc/partition/options.py``. Nothing here loads a part of the compiler.
"""
