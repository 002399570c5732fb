"""Prints at the end of a run what each folder of tests costs, and the slowest files and tests."""

import collections

_FILES = 12
_TESTS = 12


class Times:
    """A pytest plugin that adds up the seconds of tests, with their setup and teardown."""

    def __init__(self):
        self._seconds = collections.Counter()  # by name of the test

    def pytest_runtest_logreport(self, report):
        self._seconds[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter):
        if not self._seconds:
            return
        terminalreporter.section("seconds by folder, slowest files, slowest tests")
        folders = _table(self._seconds, lambda name: name.split("::")[0].rpartition("/")[0])
        files = _table(self._seconds, lambda name: name.split("::")[0])
        for title, lines in (
            ("folder", folders),
            ("file", files[:_FILES]),
            ("test", _table(self._seconds, lambda name: name)[:_TESTS]),
        ):
            terminalreporter.write_line(f"{'seconds':>8} {'tests':>6}  {title}")
            for seconds, tests, name in lines:
                terminalreporter.write_line(f"{seconds:8.1f} {tests:6}  {name}")


def _table(seconds_of_tests, group) -> list:
    """Returns (seconds, tests, group's name), the slowest group first."""
    seconds, tests = collections.Counter(), collections.Counter()
    for name, duration in seconds_of_tests.items():
        seconds[group(name)] += duration
        tests[group(name)] += 1
    return [(total, tests[name], name) for name, total in seconds.most_common()]
