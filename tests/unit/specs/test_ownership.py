"""Which connectors a spec has made, told from journal entries."""

import pytest

import seamark.fleet.kinds  # noqa: F401 - registers the kinds of steps that journal entries have
from seamark.changes.file_journal import FileJournal
from seamark.changes.journal import EntryKind, Opening, find_spec
from seamark.changes.kafka_journal.heads import build_head_value, read_head_value, track_entries
from seamark.changes.plan import Plan
from seamark.changes.step import StepData
from seamark.specs.ownership import build_undo_field, find_owners, read_claims

OLD, NEW = {"config": {"a": "1"}}, {"config": {"a": "2"}}


def step(kind, name, *, fallback=False):
    arguments = {"cluster": "game", "name": name}
    return StepData(kind, f"connector/game/{name}", arguments, lane=name, fallback=fallback)


class Pages:
    """A journal in a folder, written by hand."""

    def __init__(self, folder):
        self.journal = FileJournal(folder / "journal")
        self.count = 0

    def write(self, *steps, spec=None, close=True, undoes=""):
        """One change. Each step is kind, name, before, after and outcome."""
        change = f"01{self.count:024d}"
        self.count += 1
        plan = Plan(
            title="t",
            context="dev",
            made_at="T",
            made_by="me",
            steps=tuple(step(kind, name) for kind, name, *_ in steps),
            spec=spec or {},
            undoes=undoes,
        )
        writer = self.journal.begin(Opening(change, "t", "me", "T", "n", (), {"plan": plan.to_dict()}))
        for number, (_, _, before, after, outcome) in enumerate(steps):
            if outcome != "did not happen":
                writer.append(EntryKind.INTENT, {"step": number, "before": before, "after": after, "extra": None})
            writer.append(EntryKind.OUTCOME, {"step": number, "outcome": outcome})
        if close:
            writer.append(EntryKind.CLOSE, {"ending": "done"})
        writer.release()
        return change

    def claims(self, spec="s"):
        return read_claims(spec, lambda: self.journal)


@pytest.fixture
def pages(tmp_path):
    return Pages(tmp_path)


def a_spec(base="", name="s", **owned):
    return {"id": name, "base": base, "owned": {f"game/{owner}": change for owner, change in owned.items()}}


def test_nothing_is_owned_before_the_first_change(pages):
    claims = pages.claims()
    assert (claims.own, claims.base, claims.trouble) == ({}, "", "")
    assert claims.others() == {}


def test_creates_and_changes_are_owned_and_deletes_are_not(pages):
    first = pages.write(
        ("create-connector", "a", None, NEW, "done"), ("put-config", "b", OLD, NEW, "done"), spec=a_spec()
    )
    second = pages.write(("delete-connector", "a", NEW, None, "done"), spec=a_spec(first, a=first, b=first))
    claims = pages.claims()
    assert claims.own == {"game/b": first}
    assert claims.base == second
    assert claims.read_applied(["game/b", "game/zzz"]) == {"game/b": NEW}


@pytest.mark.parametrize(
    ("outcome", "is_owned"), [("done", True), ("unknown", True), ("did not happen", False), ("foreign change", False)]
)
def test_a_create_is_owned_where_it_may_have_happened(pages, outcome, is_owned):
    change = pages.write(("create-connector", "a", None, NEW, outcome), spec=a_spec())
    assert pages.claims().own == ({"game/a": change} if is_owned else {})


def test_a_delete_that_may_not_have_happened_takes_nothing_away(pages):
    first = pages.write(("create-connector", "a", None, NEW, "done"), spec=a_spec())
    pages.write(("delete-connector", "a", NEW, None, "unknown"), spec=a_spec(first, a=first))
    assert pages.claims().own == {"game/a": first}


def test_a_config_that_was_put_back_changes_no_owner(pages):
    first = pages.write(("create-connector", "a", None, OLD, "done"), spec=a_spec())
    back = [("put-config", name, OLD, NEW, "done") for name in "ab"]
    back += [("put-config", name, NEW, OLD, "done") for name in "ab"]
    pages.write(*back, spec=a_spec(first, a=first))
    claims = pages.claims()
    assert claims.own == {"game/a": first}
    assert claims.read_applied(["game/a"]) == {"game/a": OLD}


def test_changes_since_the_base_are_not_forgotten(pages):
    first = pages.write(("create-connector", "a", None, NEW, "done"), spec=a_spec())
    second = pages.write(("create-connector", "b", None, NEW, "done"), spec=a_spec(first, a=first))
    # This plan was made before the second change, or by somebody who could not read the journal.
    third = pages.write(("create-connector", "c", None, NEW, "done"), spec=a_spec(first, a=first))
    expected = {"game/a": first, "game/b": second, "game/c": third}
    assert pages.claims().own == expected
    fourth = pages.write(("create-connector", "d", None, NEW, "done"), spec=a_spec())
    assert pages.claims().own == expected | {"game/d": fourth}


def test_an_open_change_counts_as_far_as_it_came(pages):
    change = pages.write(("create-connector", "a", None, NEW, "done"), spec=a_spec(), close=False)
    assert pages.claims().own == {"game/a": change}


def test_the_newest_spec_has_a_connector(pages):
    first = pages.write(("create-connector", "a", None, NEW, "done"), spec=a_spec())
    assert pages.claims("t").others() == {"game/a": pages.claims("t").others()["game/a"]}
    assert pages.claims("t").others()["game/a"].spec == "s"
    second = pages.write(("put-config", "a", NEW, OLD, "done"), spec=a_spec(name="t"))
    assert pages.claims("t").others() == {}
    assert pages.claims("s").own == {"game/a": first}
    assert pages.claims("s").others()["game/a"].change == second


def test_an_undo_says_whose_it_was_before(pages):
    first = pages.write(("create-connector", "a", None, NEW, "done"), spec=a_spec())
    second = pages.write(("delete-connector", "a", NEW, None, "done"), spec=a_spec(first, a=first))
    entries = pages.journal.read(second)
    built = build_undo_field(entries, pages.claims(), ["game/a"])
    assert built == {"id": "s", "base": second, "owned": {}, "clusters": {}, "back": {"game/a": first}}
    pages.write(("create-connector", "a", None, NEW, "done"), spec=built, undoes=second)
    assert pages.claims().own == {"game/a": first}


def test_the_spec_stands_in_the_heads_of_both_journals(pages):
    change = pages.write(("create-connector", "a", None, NEW, "done"), spec=a_spec())
    pages.write()
    assert [head.spec for head in pages.journal.heads()] == ["", "s"]
    head = track_entries(pages.journal.read(change)).head
    assert head.spec == "s"
    assert read_head_value(build_head_value(head)) == head


@pytest.mark.parametrize("body", [{}, {"plan": None}, {"plan": {}}, {"plan": {"spec": []}}])
def test_what_has_no_spec_has_none(body):
    assert find_spec(body) == ""


def test_a_plan_keeps_its_spec_and_one_without_looks_as_before():
    plan = Plan("t", "dev", "T", "me", (step("put-config", "a"), step("put-config", "a"), step("await-running", "b")))
    assert "spec" not in plan.to_dict()
    assert find_owners(plan) == ("game/a",)
    with_spec = Plan("t", "dev", "T", "me", (), spec=a_spec("x", a="x"))
    assert Plan.from_dict(with_spec.to_dict()) == with_spec
