"""What the cases share: the broker's address, a topic of their own, and where results go."""

import os
import pathlib
import uuid

import pytest

WORK_DIR = pathlib.Path(os.environ["work_dir"])


def pytest_addoption(parser):
    parser.addoption("--case", default="", help="only cases whose name contains this text")
    parser.addoption("--short-cases", help="a file with the names of the cases to run")


def case_name(item):
    return "python/" + item.originalname.removeprefix("test_").replace("_", "-")


def pytest_collection_modifyitems(config, items):
    short = config.getoption("--short-cases")
    names = pathlib.Path(short).read_text().split() if short else None
    items[:] = [
        item
        for item in items
        if config.getoption("--case") in case_name(item)
        and (names is None or case_name(item) in names)
    ]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call" or report.failed:
        with (WORK_DIR / "results").open("a") as results:
            results.write(f"{'pass' if report.passed else 'fail'} {case_name(item)}\n")


@pytest.fixture
def bootstrap():
    return os.environ["bootstrap"]


@pytest.fixture
def topic():
    return f"python-{uuid.uuid4().hex[:12]}"
