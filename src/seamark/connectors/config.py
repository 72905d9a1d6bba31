"""Convert a connector config from user input to the form that Connect expects."""

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
from seamark.core.offsets import Offset
from seamark.core.secrets import MASK, find_secret_keys, find_secret_values, hide_values, is_sensitive, mask_value
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnreachableError, UsageError


def build_config(name: str, given: Mapping[str, Any], *, present: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the config with text values, converted as Connect's own API does for numbers and booleans, without `name`.

    Connect adds `name` itself, and rejects a config whose name differs from the connector's. `present` is the config
    that Connect has: if a value is seamark's mask of a secret in it, the secret itself is used.
    """
    if not given:
        raise UsageError(f"the config of {name} is empty", hint="set at least connector.class")
    config = {str(key): _build_text(str(key), value, name=name) for key, value in given.items()}
    named = config.pop("name", name)
    if named != name:
        raise UsageError(f"the config names connector {named}, not {name}", hint="use the same name in both")
    config = restore_masked(config, present or {})
    refuse_masks(config, name=name)
    return config


def restore_masked(config: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """Return the config with each masked value replaced by the value that Connect has, byte by byte.

    Only the complete value as seamark displays it is replaced: a URL with another host and the mask in it is not,
    because the password would be sent to another host.
    """
    # A value that another process masked before it had the types is rejected by name, so that the user sets it again.
    secret = find_secret_keys(present, unread=False) if present else frozenset()
    return {
        key: present[key] if MASK in value and value == mask_value(key, present.get(key, ""), secret) else value
        for key, value in config.items()
    }


def refuse_masks(config: Mapping[str, str], *, name: str) -> None:
    """Raise for a mask that a tool displays in place of a secret: written back, it would become the new secret."""
    secret = find_secret_keys(config, unread=False)
    masked = sorted(
        key
        for key, value in config.items()
        if MASK in value or ((key in secret or is_sensitive(key)) and is_masked(value))
    )
    if masked:
        raise RefusedError(
            f"the config of {name} contains the mask of a secret, not the secret",
            cause=f"masked: {', '.join(masked)}",
            hint="write the secret as a reference: secret://env/NAME or ${file:…}; a value that Connect already has "
            "may "
            "stay masked",
        )


def _build_text(key: str, value: Any, *, name: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise UsageError(
        f"{key} of {name} is not a string",
        cause=f"it is a {type(value).__name__}",
        hint="put the value in quotation marks",
    )


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """A declared connector.

    `config` is the config for Connect, as texts, without `name`; seamark's own `secret://` references are not resolved.
    `cluster` is None if the context has only one. `state` is the initial state of a new connector: RUNNING, PAUSED,
    STOPPED, or "" for Connect's default. With `manage_state`, an existing connector gets this state, too. `offsets` are
    those at which a new connector starts, none to start as Connect does. `labels` are seamark's own; Connect doesn't
    get them.
    """

    name: str
    config: Mapping[str, str] = field(repr=False)
    place: FileLocation
    cluster: str | None = None
    state: str = ""
    manage_state: bool = False
    offsets: tuple[Offset, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def managed_state(self) -> str:
        """Return the state that an existing connector must have; "" if it keeps its own."""
        return (self.state.upper() or "RUNNING") if self.manage_state else ""

    @property
    def owner(self) -> str:
        """Return CLUSTER/NAME, or NAME if the Connect cluster is not set."""
        return f"{self.cluster}/{self.name}" if self.cluster else self.name


# Validation uses a worker's CPU, and a database if the plugin queries one.
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
class ConfigFault:
    """An error in a config. `key` is empty if it isn't about one key."""

    key: str
    message: str

    def __str__(self) -> str:
        """Return the key and the message."""
        return f"{self.key}: {self.message}" if self.key else self.message


@dataclass(frozen=True, slots=True)
class ConfigJudgement:
    """The result for one connector's config: its errors, the keys that were not checked, or why there is no result."""

    subject: str
    faults: tuple[ConfigFault, ...] = ()
    unchecked: tuple[str, ...] = ()
    trouble: SeamarkError | None = None


def check_configs(writes: Iterable[ConfigWrite], clusters: Clusters, world: Environment) -> tuple[str, ...]:
    """Raise for configs that their plugins don't accept, naming all of them.

    Plugins get a placeholder for each `secret://` reference: a plugin may connect to an address of the config, and a
    plan must not send secrets there. Returns a note for each connector with keys that could not be checked.

    Raises:
        RefusedError: Connect would reject a config, or the plugin finds an error in it.
        UnreachableError: A worker did not respond in time.
    """
    configs = [write for write in writes if write.is_validated]
    if not configs:
        return ()
    judgements = validate_configs(configs, clusters, world)
    if faulty := [found for found in judgements if found.faults]:
        raise RefusedError(
            f"Connect rejects the config of {_count(faulty)}; no changes were made",
            cause="; ".join(f"{found.subject}: {', '.join(map(str, found.faults))}" for found in faulty[:_MOST_NAMED]),
            hint="correct the configs, or skip plugin validation: --no-validate",
        )
    if unheard := [found for found in judgements if found.trouble is not None]:
        first = unheard[0].trouble
        raise UnreachableError(
            f"Connect could not validate the config of {_count(unheard)}; no changes were made",
            cause=f"{unheard[0].subject}: {first.message if first else ''}",
            hint="try again, or skip plugin validation: --no-validate",
        )
    return tuple(
        f"{found.subject}: not checked: {', '.join(found.unchecked)} (they depend on secret:// references)"
        for found in judgements
        if found.unchecked
    )


def validate_configs(
    configs: Sequence[ConfigWrite], clusters: Clusters, world: Environment
) -> tuple[ConfigJudgement, ...]:
    """Return what the plugins say of configs, in their order. References are replaced by a placeholder."""
    judge = _build_judge(clusters, world)
    with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="seamark-validate") as pool:
        return tuple(pool.map(judge, configs))


def _build_judge(clusters: Clusters, world: Environment) -> Callable[[ConfigWrite], ConfigJudgement]:
    def judge(step: ConfigWrite) -> ConfigJudgement:
        client = clusters.client(step.cluster)
        try:
            references = find_references(step.config)
            config = {key: PLACEHOLDER if key in references else value for key, value in step.config.items()}
            if step.keep:
                # From the reading on which the plan is based, if there is one.
                present = world.use(CONNECT)(step.cluster).read_config(step.name)
                config |= {key: present[key] for key in step.keep if key in present}
            found = client.validate_config(config.get("connector.class", ""), config | {"name": step.name})
        except NotFoundError as error:
            return ConfigJudgement(step.subject, (_build_fault(error),))
        except SeamarkError as error:
            if error.retryable:
                return ConfigJudgement(step.subject, trouble=error)
            return ConfigJudgement(step.subject, (_build_fault(error),))
        secrets = find_secret_values(config, more=found.secret)
        errors = [(key, said) for key, all_said in found.errors.items() for said in all_said]
        unchecked = {key for key, said in errors if references and (key in references or _LOGIN.search(said))}
        faults = [ConfigFault(key, hide_values(said, secrets)) for key, said in errors if key not in unchecked]
        untyped = _find_untyped(step, config, found.secret, world)
        return ConfigJudgement(step.subject, (*faults, *untyped), tuple(sorted(unchecked)))

    return judge


# Connect adds every installed class, some kilobytes.
_INSTALLED = ", available connectors are"
_UNKNOWN_CLASS = "Failed to find any class that implements Connector"


def _build_fault(error: SeamarkError) -> ConfigFault:
    """Return what Connect said instead of a validation: an unknown class, or an exception of the plugin."""
    key = "connector.class" if _UNKNOWN_CLASS in error.cause else ""
    cause = error.cause.partition(_INSTALLED)[0]
    return ConfigFault(key, f"{error.message}: {cause}" if cause else error.message)


def _find_untyped(
    write: ConfigWrite, config: Mapping[str, str], passwords: frozenset[str], world: Environment
) -> tuple[ConfigFault, ...]:
    """Return an error for each literal PASSWORD value that the plan and the journal would contain in clear text.

    The types of a plugin don't depend on the config (`ConfigDef` belongs to the class), so this detects a bug in
    seamark or a worker with another version of the plugin.
    """
    secret = find_typed(world, write.cluster, config)
    return tuple(
        ConfigFault(key, "another worker doesn't type this key as PASSWORD; write the value as a secret:// reference")
        for key in sorted(passwords.intersection(write.config) - secret)
        if not write.config[key].startswith(SECRET_SCHEME)
        and mask_value(key, config[key]) == config[key] != mask_value(key, config[key], passwords)
    )


def _count(found: Sequence[ConfigJudgement]) -> str:
    return found[0].subject if len(found) == 1 else f"{len(found)} connectors"
