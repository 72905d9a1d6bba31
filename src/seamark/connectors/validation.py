"""Validate configs with Connect's plugins before anything is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from seamark.changes.action import ConfigWrite
from seamark.changes.images import SECRET_SCHEME, find_references, find_typed
from seamark.changes.world import World
from seamark.connect.clusters import Clusters
from seamark.connect.ports import CONNECT
from seamark.core.sensitive import find_secret_values, hide_values, mask_value
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnreachableError

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


def check_configs(writes: Iterable[ConfigWrite], clusters: Clusters, world: World) -> tuple[str, ...]:
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


def _build_judge(clusters: Clusters, world: World) -> Callable[[ConfigWrite], _Judgement]:
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
    write: ConfigWrite, config: Mapping[str, str], passwords: frozenset[str], world: World
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
