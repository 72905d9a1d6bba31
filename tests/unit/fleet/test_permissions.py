"""Roles, read-only and protected contexts, below the command line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.changes.permissions import build_access, find_principal
from seamark.changes.planner import check_plan
from seamark.core.refs import Ref
from seamark.errors import InvalidSettingError, PermissionDeniedError, RefusedError
from seamark.fleet.fleet import Fleet
from seamark.fleet.identity import rename_clusters
from seamark.policy.permissions import Access, Permission, Role, build_role
from tests.unit.fleet.living import SOURCE_CONFIG, living_context

CONNECTOR, TOPIC = Ref("connector", "log-a", "game"), Ref("topic", "t")
ANA = "User:ana"


def role(*allow, principals=(ANA,), **more):
    return Role("some", principals, frozenset(map(Permission, allow)), **more)


@pytest.mark.parametrize(
    ("given", "permission", "target", "is_allowed"),
    [
        (role("operate"), Permission.OPERATE, CONNECTOR, True),
        (role("operate"), Permission.DELETE, CONNECTOR, False),
        (role("operate", principals=("User:ben",)), Permission.OPERATE, CONNECTOR, False),
        (role("operate", clusters=("game",)), Permission.OPERATE, CONNECTOR, True),
        (role("operate", clusters=("lake", "g*")), Permission.OPERATE, CONNECTOR, True),
        (role("operate", clusters=("lake",)), Permission.OPERATE, CONNECTOR, False),
        (role("operate", connectors=("log-*",)), Permission.OPERATE, CONNECTOR, True),
        (role("operate", connectors=("LOG-*",)), Permission.OPERATE, CONNECTOR, False),
        (role("delete"), Permission.DELETE, TOPIC, True),
        (role("delete", connectors=("log-*",)), Permission.DELETE, TOPIC, False),
        (role("delete", clusters=("game",)), Permission.DELETE, TOPIC, False),
        (role("read", connectors=("log-*",)), Permission.READ, None, True),
    ],
)
def test_role_allows_what_it_names(given, permission, target, is_allowed):
    assert (Access(ANA, (given,)).find_denied((permission,), (target,)) == ()) is is_allowed


def test_without_roles_everything_is_allowed_unless_the_context_is_read_only():
    assert Access(ANA).find_denied(Permission, (CONNECTOR, TOPIC)) == ()
    denied = Access(ANA, read_only=True).find_denied(Permission, (CONNECTOR,))
    assert {one.partition(":")[0] for one in denied} == {str(one) for one in Permission} - {"read"}


def test_roles_add_up_and_each_resource_needs_one():
    access = Access(ANA, (role("operate", connectors=("log-*",)), role("operate", connectors=("x",))))
    assert access.find_denied((Permission.OPERATE,), (CONNECTOR, replace(CONNECTOR, name="x"))) == ()
    denied = access.find_denied((Permission.OPERATE,), (CONNECTOR, replace(CONNECTOR, name="y")))
    assert denied == (f"operate on connector/game/y: no role of {ANA}",)


@pytest.mark.parametrize(
    "texts",
    [
        {"principals": ("a",), "allow": ("everything",)},
        {"allow": ("read",)},
        {},
        {"principals": ("a",), "allow": ("read",), "clusters": ()},
        {"principals": ("a",), "allow": ("read",), "connectors": ()},
        {"principals": ("a",), "allow": ("read",), "connectors": ("",)},
    ],
)
def test_wrong_role_is_an_error(texts):
    with pytest.raises(InvalidSettingError):
        build_role("some", texts)


def open_fleet(tmp_path, game, **changes):
    from tests.unit.fleet.living import open_living_fleet  # noqa: PLC0415

    opened = open_living_fleet(tmp_path, game)
    return Fleet(
        replace(opened.context, **changes),
        build_connect=opened._build_connect,
        build_kafka=opened._build_kafka,
        open_journal=opened._open_journal,
        open_scan=opened._open_scan,
    )


def test_every_service_of_a_fleet_declares_its_permission():
    undeclared = set()
    for name, member in vars(Fleet).items():
        if name.startswith("_") or name in {"access", "close", "build_pace", "waits"}:
            continue
        function = member.fget if isinstance(member, property) else getattr(member, "func", member)
        if getattr(function, "permission", None) is None:
            undeclared.add(name)
    assert undeclared == set()


def test_plan_made_in_memory_is_checked_too(tmp_path, game):
    game.add("a", SOURCE_CONFIG)
    some = {"some": {"principals": ("User:ANONYMOUS",), "allow": ("read", "operate")}}
    fleet = open_fleet(tmp_path, game, roles=some)
    assert fleet.apply(fleet.connectors.pause("a")).is_done
    with pytest.raises(PermissionDeniedError, match="not allowed: delete a") as caught:
        fleet.apply(fleet.connectors.delete("a"))
    assert caught.value.exit_code == 4
    assert "delete on connector/game/a" in caught.value.cause
    assert "a" in game.configs
    assert fleet.journal.list(limit=1)[0].title == "not allowed: delete a"
    with pytest.raises(PermissionDeniedError, match="not allowed: status"):
        open_fleet(tmp_path, game, roles={"some": {"principals": ("User:b",), "allow": ("read",)}}).status()


def test_protected_context_needs_the_name_of_the_resource(tmp_path, game):
    game.add("a", SOURCE_CONFIG)
    game.add("b", SOURCE_CONFIG)
    fleet = open_fleet(tmp_path, game, protected=True)
    one, two = fleet.connectors.pause("a"), fleet.connectors.pause(["a", "b"])
    for planned, word in ((one, "a"), (two, "dev")):
        for given in ("", "yes", "b"):
            with pytest.raises(RefusedError, match="context dev is protected") as caught:
                fleet.apply(planned, confirm=given)
            assert f"--confirm {word}" in caught.value.hint
    assert game.writes == 0
    assert fleet.apply(one, confirm="a").is_done


def test_plan_of_others_is_checked_under_the_own_name_of_the_cluster(tmp_path, game):
    """A plan must not choose its permissions by the name that it gives to a cluster."""
    game.add("a", SOURCE_CONFIG)
    fleet = open_fleet(tmp_path, game)
    plan = fleet.connectors.pause("a").plan
    renamed = rename_clusters(living_context(tmp_path, clusters=("prod",)), {"game": "prod"})
    for clusters, is_allowed in ((("prod",), True), (("game",), False)):
        access = Access(ANA, (role("operate", clusters=clusters),))
        if is_allowed:
            check_plan(plan, access, renamed)
        else:
            with pytest.raises(PermissionDeniedError, match="pause a"):
                check_plan(plan, access, renamed)


def test_principal_is_the_sasl_user_the_certificate_or_the_rest_user(tmp_path):
    from seamark.context.value import Value  # noqa: PLC0415

    context = living_context(tmp_path)
    assert find_principal(context) == "User:ANONYMOUS"
    assert build_access(context) == Access("User:ANONYMOUS")
    rest = replace(context, connect={"game": replace(context.connect["game"], username="ops")})
    assert find_principal(rest) == "User:ops"
    values = {**context.kafka.values, "sasl.username": Value("kafka.sasl.username", "ana")}
    assert find_principal(replace(rest, kafka=replace(context.kafka, values=values))) == ANA
