"""Asking Connect's plugins what they think of configs, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from seamark.change.action import ConfigWrite
from seamark.change.image import SECRET_SCHEME, find_references, find_typed, reveal_config
from seamark.change.world import CONNECT, World
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnreachableError
from seamark.fleet.clusters import Clusters
from seamark.model.sensitive import find_secret_values, hide_values, mask_value

# Validating is work for a worker's processor, and for a database where the plugin asks one.
_AT_ONCE = 8
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class _Judgement:
    """What was said of one connector's config: what is wrong with it, or why nobody could tell."""

    subject: str
    faults: tuple[str, ...] = ()
    trouble: SeamarkError | None = None


def check_configs(writes: Iterable[ConfigWrite], clusters: Clusters, world: World) -> None:
    """Refuse configs that their plugins don't accept, naming all of them.

    Raises:
        RefusedError: Connect would refuse a config, or the plugin finds an error in it.
        UnreachableError: a worker did not answer in time.
    """
    configs = [write for write in writes if write.is_validated]
    if not configs:
        return
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


def _build_judge(clusters: Clusters, world: World) -> Callable[[ConfigWrite], _Judgement]:
    def judge(step: ConfigWrite) -> _Judgement:
        client = clusters.client(step.cluster)
        try:
            config = reveal_config(step.config, world)
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
        secrets = find_secret_values(config, more=[*find_references(step.config), *found.secret])
        faults = [f"{key}: {hide_values(said, secrets)}" for key, all_said in found.errors.items() for said in all_said]
        return _Judgement(step.subject, (*faults, *_find_untyped(step, config, found.secret, world)))

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
