"""Looking into a store or an array: a program for the terminal, and one HTML page that can be sent.

Only the command `blosc2 view` uses this package. What is read is bounded by what is shown. `app` needs the extra
``view``; the other modules know nothing of a terminal.
"""
