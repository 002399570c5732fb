"""Published results: docs/results/*.csv, and the pages, charts and tables that are made of them.

    make results                                       measures `gate`, writes a file and its page
    python -m benchmarks.results measure [CPU]         the same
    python -m benchmarks.results add RUN.csv... [CPU]  publishes runs of `make bench` on one machine
    python -m benchmarks.results render                writes every page, chart and table anew

A file is called <CPU>-<date>.csv. CPU is a name such as amd-epyc-zen4; left out, it is made of what
the CPU calls itself. No page holds a figure that was typed: whoever wants to change one changes the
csv file, and renders. A chart is drawn anew if its csv file has changed, or if it was deleted.
"""
