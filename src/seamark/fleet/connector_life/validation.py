"""Asking Connect's plugins what they think of configs, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from seamark.change.action import ConfigWrite
from seamark.change.image import find_references, reveal_config
from seamark.change.world import CONNECT, World
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnreachableError
from seamark.fleet.clusters import Clusters
from seamark.model.sensitive import MASK, mask_text, mask_value

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
        secrets = find_secrets(config, references=find_references(step.config))
        faults = [f"{key}: {_hide(said, secrets)}" for key, all_said in found.errors.items() for said in all_said]
        return _Judgement(step.subject, tuple(faults))

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
