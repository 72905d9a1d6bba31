"""What seamark shows in place of a secret, given back: the secret stays, byte by byte, or it is refused."""

from __future__ import annotations

import pytest

from seamark.connectors.config import build_config, restore_masked
from seamark.core.secrets import MASK, mask_config
from seamark.errors import RefusedError
from tests.unit.fleet.living import SOURCE_CONFIG, LivingConnect, open_living_fleet

# Blanks, quotation marks, percent signs, a byte order mark, letters in two pieces: nothing may be made nicer.
SECRETS = {
    "db.password": ' p"a\\s%20s\u00e9e\u0301\ufeff\t;=:@ ',
    "url": "jdbc:x://u:p%40ss:w0rd@h/d?user=u&password=s;e'cr et&x=1",
    "sasl.jaas.config": 'a.B required username="u" password="p\\"q";',
    "api.token": "(almost sensitive)",
    "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\nMII=\n-----END PRIVATE KEY-----\n",
}
HELD = SOURCE_CONFIG | SECRETS


@pytest.fixture
def game():
    made = LivingConnect()
    made.add("a", HELD)
    return made


@pytest.fixture
def fleet(tmp_path, game):
    with open_living_fleet(tmp_path, game) as opened:
        yield opened


def test_the_shown_config_applied_back_changes_nothing(fleet, game) -> None:
    shown = mask_config(fleet.connectors.get("a").config)
    assert all(MASK in shown[key] for key in SECRETS)
    assert fleet.connectors.update("a", shown).is_empty
    assert game.writes == 0


def test_a_change_beside_masks_leaves_the_secrets_byte_equal(fleet, game) -> None:
    shown = mask_config(game.configs["a"], unread=False) | {"tasks.max": "3", "file": "/other"}
    planned = fleet.connectors.update("a", shown)
    step = planned.plan.steps[0]
    assert set(step.arguments["keep"]) == set(SECRETS)
    assert not set(SECRETS) & set(step.arguments["config"])
    fleet.apply(planned)
    assert game.configs["a"] == {"name": "a", **HELD, "tasks.max": "3", "file": "/other"}
    assert {key: game.configs["a"][key].encode() for key in SECRETS} == {k: v.encode() for k, v in SECRETS.items()}


def test_set_takes_our_mask_for_what_is_there(fleet) -> None:
    assert fleet.connectors.set("a", {"db.password": MASK}).is_empty


def test_create_refuses_every_mask(fleet, game) -> None:
    for key, value in mask_config(SECRETS).items():
        with pytest.raises(RefusedError, match="contains the mask of a secret"):
            fleet.connectors.create("b", SOURCE_CONFIG | {key: value})
    assert game.writes == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("db.password", "******"),
        ("db.password", "[hidden]"),
        ("db.password", f"{MASK} "),
        ("other.password", MASK),
        ("topic", MASK),
        ("note", f"a {MASK} b"),
        # The password would go to another host.
        ("url", f"jdbc:x://u:{MASK}@evil/d?user=u&password={MASK};e'cr et&x=1"),
        ("url", MASK),
    ],
)
def test_a_mask_that_is_not_ours_of_that_value_is_refused(fleet, game, key, value) -> None:
    with pytest.raises(RefusedError, match="contains the mask of a secret"):
        fleet.connectors.update("a", HELD | {key: value})
    assert game.writes == 0


def test_a_reference_is_shown_and_so_is_never_masked() -> None:
    held = {"connector.class": "x", "db.password": "${file:/a:b}"}
    assert restore_masked(mask_config(held), held) == held
    with pytest.raises(RefusedError):
        build_config("a", held | {"db.password": MASK}, present=held)
