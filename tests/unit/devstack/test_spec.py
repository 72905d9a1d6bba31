"""What a stack shall hold."""

from __future__ import annotations

import pytest

from seamark.devstack import StackSpec
from seamark.errors import UsageError


def test_spec_survives_json():
    spec = StackSpec(
        brokers=3, workers=2, connect_versions=("4.3.1", "3.5.2"), postgres=True, exactly_once=True, spark_workers=2
    )
    assert StackSpec.from_json(spec.to_json()) == spec


def test_each_version_is_a_cluster_of_its_own():
    spec = StackSpec(connect_versions=("4.3.1", "3.5.2", "4.3.1"))
    assert spec.clusters() == {"connect": "4.3.1", "connect-3-5-2": "3.5.2"}


def test_no_workers_means_no_cluster():
    assert StackSpec(workers=0).clusters() == {}


NO_WORKER = {"workers": 0, "proxied_worker": True}


@pytest.mark.parametrize(
    "counts", [{"brokers": 0}, {"brokers": 10}, {"workers": -1}, {"workers": 10}, {"spark_workers": 0}, NO_WORKER]
)
def test_counts_that_no_stack_can_have_are_refused(counts):
    with pytest.raises(UsageError) as caught:
        StackSpec(**counts)
    assert caught.value.exit_code == 64
    assert caught.value.hint
