"""Validate configs with Connect's plugins before anything is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from seamark.change.action import ConfigWrite
from seamark.change.image import find_references
from seamark.change.world import CONNECT, World
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnreachableError
from seamark.fleet.clusters import Clusters
from seamark.model.sensitive import MASK, mask_text, mask_value

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
        secrets = find_secrets(config, references=())
        errors = [(key, said) for key, all_said in found.errors.items() for said in all_said]
        unchecked = {key for key, said in errors if references and (key in references or _LOGIN.search(said))}
        faults = [f"{key}: {_hide(said, secrets)}" for key, said in errors if key not in unchecked]
        return _Judgement(step.subject, tuple(faults), tuple(sorted(unchecked)))

    return judge


def find_secrets(config: Mapping[str, str], *, references: Collection[str]) -> tuple[str, ...]:
    """The secret values of a revealed config, the longest first."""
    found = {value for key, value in config.items() if key in references or mask_value(key, value) != value}
    return tuple(sorted((value for value in found if value), key=len, reverse=True))


def _hide(said: str, secrets: Iterable[str]) -> str:
    """A plugin's words may quote the value that it does not like."""
    for secret in secrets:
        said = said.replace(secret, MASK)
    return mask_text(said)


def _count(found: Sequence[_Judgement]) -> str:
    return found[0].subject if len(found) == 1 else f"{len(found)} connectors"
