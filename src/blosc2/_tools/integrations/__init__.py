"""What joins other libraries to arrays, stores and their files, each an extra.

Modules that import such a library are imported when they are used, or by plug-ins of the library; `_options.needed`
says what to install where it is missing.
"""
