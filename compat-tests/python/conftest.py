"""Chooses the client's adapter and the scenarios to run, and reports each result."""

import importlib
import os
import pathlib
import uuid

import pytest

MODULES = {
    "confluent-kafka": "clients.confluent",
    "kafka-python": "clients.kafka_python",
    "kafka-python-2.0": "clients.kafka_python",
    "aiokafka": "clients.aiokafka_client",
}


def scenario_of(item):
    return item.originalname.removeprefix("test_").replace("_", "-")


def pytest_collection_modifyitems(items):
    wanted = os.environ["SCENARIOS"].split()
    items[:] = sorted(
        (item for item in items if scenario_of(item) in wanted),
        key=lambda item: wanted.index(scenario_of(item)),
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" or report.failed:
        result = "pass" if report.passed else "fail"
        with pathlib.Path(os.environ["RESULTS"]).open("a") as results:
            results.write(f"{result} {scenario_of(item)}\n")


@pytest.fixture(scope="session")
def client():
    module = importlib.import_module(MODULES[os.environ["CLIENT"]])
    return module.Client(os.environ["BOOTSTRAP"])


@pytest.fixture
def topic():
    return f"python-{uuid.uuid4().hex[:12]}"
