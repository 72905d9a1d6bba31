"""A connector's config as somebody gave it, made fit for Connect."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from seamark.changes.action import ConfigWrite
from seamark.changes.environment import Environment
from seamark.changes.images import SECRET_SCHEME, find_references, find_typed
from seamark.connect.api import CONNECT
from seamark.connect.clusters import Clusters
from seamark.context import is_masked
from seamark.core.files import FileLocation
from seamark.core.secrets import MASK, find_secret_keys, find_secret_values, hide_values, is_sensitive, mask_value
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnreachableError, UsageError


def build_config(name: str, given: Mapping[str, Any], *, present: Mapping[str, str] | None = None) -> dict[str, str]:
    """The config as texts, as Connect's own API reads numbers and truth values; `name` is left out of it.

    Connect adds `name` itself. Another name in the config than the connector's is a mistake that it would refuse.
    `present` is what Connect holds: where the config shows a secret of it as seamark does, the secret itself is meant.
    """
    if not given:
        raise UsageError(f"the config of {name} is empty", hint="it needs at least connector.class")
    config = {str(key): _build_text(str(key), value, name=name) for key, value in given.items()}
    named = config.pop("name", name)
    if named != name:
        raise UsageError(f"the config is that of {named}, not of {name}", hint="give the same name in both places")
    config = restore_masked(config, present or {})
    refuse_masks(config, name=name)
    return config


def restore_masked(config: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """The config with what Connect holds in place of our mask of it, byte by byte.

    Only the whole value as seamark shows it counts: a URL with another host and the mask in it is not restored, since
    the password would be sent to another host.
    """
    # What another process hid before it knew the types is refused by name, so that it is written again.
    secret = find_secret_keys(present, unread=False) if present else frozenset()
    return {
        key: present[key] if MASK in value and value == mask_value(key, present.get(key, ""), secret) else value
        for key, value in config.items()
    }


def refuse_masks(config: Mapping[str, str], *, name: str) -> None:
    """Refuse what some tool showed in place of a secret: written back, it would be the new secret."""
    secret = find_secret_keys(config, unread=False)
    masked = sorted(
        key
        for key, value in config.items()
        if MASK in value or ((key in secret or is_sensitive(key)) and is_masked(value))
    )
    if masked:
        raise RefusedError(
            f"the config of {name} holds the mask of a secret, not the secret",
            cause=f"masked: {', '.join(masked)}",
            hint="write the secret as a reference: secret://env/NAME or ${file:…}; what Connect holds already may stay "
            "as seamark shows it",
        )


def _build_text(key: str, value: Any, *, name: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise UsageError(
        f"{key} of {name} is not a text", cause=f"it is a {type(value).__name__}", hint=f'write it as a text: "{key}"'
    )


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """A connector that should be.

    `config` is what Connect shall get, as texts, without `name`; our own `secret://` references stay unread. `cluster`
    is None where the context has but one. `state` is how it begins where it is new: RUNNING, PAUSED, STOPPED, or ""
    for Connect's own way. The state of a connector that is there is never touched by it.
    """

    name: str
    config: Mapping[str, str] = field(repr=False)
    place: FileLocation
    cluster: str | None = None
    state: str = ""

    @property
    def owner(self) -> str:
        """CLUSTER/NAME, or NAME where the cluster is not said."""
        return f"{self.cluster}/{self.name}" if self.cluster else self.name


# Validating is work for a worker's processor, and for a database where the plugin asks one.
_AT_ONCE = 8
_MOST_NAMED = 20
PLACEHOLDER = "seamark-placeholder"
"""What a plugin gets in place of a secret."""
# Plugins that connect while they validate report a failed login at another key than the password, Debezium for example
# at database.hostname. With a placeholder for the password, such an error says nothing about the config.
_LOGIN = re.compile(
    r"(?:unable|failed|failure|not|n't) (?:to )?connect|connection (?:\S+ )?(?:refused|failed|attempt)|authenticat|"
    r"log[io]n|access denied|credential|unauthorized|not authorized|forbidden|password|" + PLACEHOLDER,
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Judgement:
    """The result for one connector's config: its errors, the keys that were not checked, or why there is no result."""

    subject: str
    faults: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    trouble: SeamarkError | None = None


def check_configs(writes: Iterable[ConfigWrite], clusters: Clusters, world: Environment) -> tuple[str, ...]:
    """Refuse configs that their plugins don't accept, naming all of them.

    Plugins get a placeholder for each `secret://` reference: a plugin may connect to an address of the config, and a
    plan must not send secrets there. Returns a note for each connector with keys that could not be checked.

    Raises:
        RefusedError: Connect would refuse a config, or the plugin finds an error in it.
        UnreachableError: a worker did not answer in time.
    """
    configs = [write for write in writes if write.is_validated]
    if not configs:
        return ()
    judge = _build_judge(clusters, world)
    with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="seamark-validate") as pool:
        judgements = list(pool.map(judge, configs))
    if faulty := [found for found in judgements if found.faults]:
        raise RefusedError(
            f"Connect would not take {_count(faulty)}; nothing was changed",
            cause="; ".join(f"{found.subject}: {', '.join(found.faults)}" for found in faulty[:_MOST_NAMED]),
            hint="mend the configs, or plan without asking the plugins: --no-validate",
        )
    if unheard := [found for found in judgements if found.trouble is not None]:
        first = unheard[0].trouble
        raise UnreachableError(
            f"nobody could tell whether Connect would take {_count(unheard)}; nothing was changed",
            cause=f"{unheard[0].subject}: {first.message if first else ''}",
            hint="try again, or plan without asking the plugins: --no-validate",
        )
    return tuple(
        f"{found.subject}: not checked: {', '.join(found.unchecked)} (they depend on secret:// references)"
        for found in judgements
        if found.unchecked
    )


def _build_judge(clusters: Clusters, world: Environment) -> Callable[[ConfigWrite], _Judgement]:
    def judge(step: ConfigWrite) -> _Judgement:
        client = clusters.client(step.cluster)
        try:
            references = find_references(step.config)
            config = {key: PLACEHOLDER if key in references else value for key, value in step.config.items()}
            if step.keep:
                # From the reading that the plan is made of, where there is one.
                present = world.use(CONNECT)(step.cluster).read_config(step.name)
                config |= {key: present[key] for key in step.keep if key in present}
            found = client.validate_config(config.get("connector.class", ""), config | {"name": step.name})
        except NotFoundError as error:
            return _Judgement(step.subject, (error.message,))
        except SeamarkError as error:
            if error.retryable:
                return _Judgement(step.subject, trouble=error)
            return _Judgement(step.subject, (error.message,))
        secrets = find_secret_values(config, more=found.secret)
        errors = [(key, said) for key, all_said in found.errors.items() for said in all_said]
        unchecked = {key for key, said in errors if references and (key in references or _LOGIN.search(said))}
        faults = [f"{key}: {hide_values(said, secrets)}" for key, said in errors if key not in unchecked]
        untyped = _find_untyped(step, config, found.secret, world)
        return _Judgement(step.subject, (*faults, *untyped), tuple(sorted(unchecked)))

    return judge


def _find_untyped(
    write: ConfigWrite, config: Mapping[str, str], passwords: frozenset[str], world: Environment
) -> tuple[str, ...]:
    """Return a fault for each literal PASSWORD value that the plan and the journal would hold in clear.

    The types of a plugin don't depend on the config (`ConfigDef` belongs to the class), so that this finds a mistake of
    seamark or a worker with another version of the plugin.
    """
    secret = find_typed(world, write.cluster, config)
    return tuple(
        f"{key}: another worker doesn't type this key as PASSWORD; write the value as a secret:// reference"
        for key in sorted(passwords.intersection(write.config) - secret)
        if not write.config[key].startswith(SECRET_SCHEME)
        and mask_value(key, config[key]) == config[key] != mask_value(key, config[key], passwords)
    )


def _count(found: Sequence[_Judgement]) -> str:
    return found[0].subject if len(found) == 1 else f"{len(found)} connectors"
