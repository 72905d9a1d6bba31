"""Check a config against a policy: which rules it breaks. Nothing is read, and no secret is part of a result."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from functools import lru_cache
from types import MappingProxyType

from seamark.core.secrets import is_reference
from seamark.policy.policy import DEFAULT_POLICY, Policy
from seamark.policy.rules import (
    Violation,
    build_violation,
    check_name,
    check_present_name,
    decode,
    is_listed,
    is_listed_host,
    is_listed_path,
)

# Names that mean one thing only, so they are looked for in every value, and as the last part of every key: connectors
# hand `connection.NAME`, `database.NAME` and `driver.NAME` on to the driver.
_ANYWHERE = frozenset(
    {
        # PostgreSQL and its kin: a class of the caller's choice (CVE-2022-21724), a log file of the caller's choice
        *("socketfactory", "socketfactoryarg", "sslfactory", "sslfactoryarg", "sslhostnameverifier"),
        *("sslpasswordcallback", "authenticationpluginclassname", "loggerfile", "xmlfactoryfactory", "gsslib"),
        # MySQL and MariaDB: deserialisation, files of the client, classes of the caller's choice
        *("autodeserialize", "allowloadlocalinfile", "allowloadlocalinfileinpath", "allowurlinlocalinfile"),
        *("allowlocalinfile", "queryinterceptors", "statementinterceptors", "exceptioninterceptors"),
        *("connectionlifecycleinterceptors", "propertiestransform", "authenticationplugins", "clientinfoprovider"),
        *("defaultauthenticationplugin", "profilereventhandler", "detectcustomcollations", "useconfigs"),
        # SQL Server
        *("socketfactoryclass", "socketfactoryconstructorarg", "trustmanagerclass", "trustmanagerconstructorarg"),
        # Db2, Redshift, Hive and others
        *("clientrerouteserverlistjndiname", "pluginclassname", "plugin_name", "inifile", "krbjaasfile"),
        *("traceformat", "tracefile", "tracedirectory", "trace_level_file", "tns_admin", "spyattributes"),
        *("jaasconfigurationname", "initializationstring", "connectioninitsql"),
    }
)
# Names that are dangerous in a JDBC URL and ordinary elsewhere.
_IN_URLS = _ANYWHERE | {"init", "runscript", "browser", "logger", "loadlocalinfile", "slavehost", "create"}


def _compile_assignments(names: frozenset[str]) -> re.Pattern[str]:
    spelled = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    # Behind a dot the name is another one, as in oracle.net.tns_admin; that one is as bad.
    return re.compile(rf"(?<![\w])({spelled})\s*=", re.IGNORECASE)


_ASSIGNED_ANYWHERE = _compile_assignments(_ANYWHERE)
_ASSIGNED_IN_URL = _compile_assignments(_IN_URLS)
_URL = re.compile(r"\s*jdbc\s*:", re.IGNORECASE)
_KIND = re.compile(r"jdbc:([\w+-]{1,30})[:/@;?]", re.IGNORECASE)
_AUTHORITY = re.compile(r"//(?P<hosts>[^/?;#]*)")
_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d+)?")


def is_jdbc_url(value: str) -> bool:
    """Whether a driver would take the value for its URL."""
    return any(_URL.match(text) for text in decode(value))


def is_dangerous_parameter(key: str) -> bool:
    """Whether a config key hands a driver a parameter that runs code or reads files."""
    return key.rpartition(".")[2].lower() in _ANYWHERE


def find_parameters(value: str) -> frozenset[str]:
    """The dangerous parameters that a value sets, in small letters."""
    pattern = _ASSIGNED_IN_URL if is_jdbc_url(value) else _ASSIGNED_ANYWHERE
    return frozenset(name.lower() for text in decode(value) for name in pattern.findall(text))


def check_parameters(key: str, names: frozenset[str], policy: Policy) -> Iterator[Violation]:
    """What is wrong with the parameters that a key hands to a driver."""
    allowed = {name.lower() for name in policy.jdbc_parameters}
    for name in sorted(names - allowed):
        yield build_violation("P014", key, name)


def check_url(key: str, value: str, policy: Policy) -> Iterator[Violation]:
    """Whether the driver and the hosts of a JDBC URL are allowed. Its parameters are another rule's."""
    text = decode(value)[-1].strip()
    if not any(_is_allowed(text, entry) for entry in policy.jdbc_urls):
        found = _KIND.match(text)
        yield build_violation("P013", key, f"jdbc:{found[1].lower()}" if found else "")


def _is_allowed(text: str, entry: str) -> bool:
    """Whether an entry, `jdbc:NAME:` or `jdbc:NAME://HOST`, lets the URL through."""
    prefix, slashes, host = entry.partition("//")
    if not text.lower().startswith(prefix.lower()):
        return False
    if not slashes:
        return True
    hosts = _find_hosts(text[len(prefix) :])
    return bool(hosts) and all(is_listed_host(found, (host.rstrip("/"),)) for found in hosts)


def _find_hosts(rest: str) -> tuple[str, ...]:
    """The hosts behind the driver's name; none where a reader could take the text for something else."""
    found = _AUTHORITY.match(rest.removeprefix("@"))
    parts = [_HOST.fullmatch(part.strip()) for part in found["hosts"].split(",")] if found else [None]
    # Some drivers take the host from a parameter too.
    if not all(parts) or re.search(r"[;?&]\s*(?:servername|host|server|datasource)\s*=", rest, re.IGNORECASE):
        return ()
    return tuple(part["host"] for part in parts if part)


class Concern(Enum):
    """The rules that a key's value must be held against, beside those for every value."""

    CONNECTOR = auto()
    PLUGIN = auto()
    OVERRIDE = auto()
    LOGIN = auto()
    OAUTH = auto()
    CLIENT_CLASS = auto()
    PROVIDERS = auto()
    FILE = auto()
    PARAMETER = auto()
    JNDI = auto()
    COMMAND = auto()
    LANGUAGE = auto()
    ADDRESS = auto()
    UNSEEN = auto()


# Connectors hand these on to clients of their own under many prefixes, so only the end of a key counts.
_BY_END: tuple[tuple[Concern, str], ...] = (
    (Concern.CONNECTOR, r"^\s*connector\.class\s*$"),
    (Concern.PLUGIN, r"^(?:key|value|header)\.converter$|^(?:transforms|predicates)\.[^.]+\.type$"),
    (Concern.OVERRIDE, r"^(?:producer|consumer|admin)\.override\."),
    (Concern.LOGIN, r"(?:^|\.)sasl\.jaas\.config$"),
    (
        Concern.OAUTH,
        r"(?:^|\.)sasl\.oauthbearer\.(?:[^.]+\.)*(?:url|file)$|(?:^|\.)bearer\.auth\.issuer\.endpoint\.url$",
    ),
    (
        Concern.CLIENT_CLASS,
        (
            r"(?:^|\.)(?:interceptor\.classes|metric\.reporters|sasl\.login\.class|security\.providers"
            r"|sasl\.(?:client|login|server)\.callback\.handler\.class|ssl\.engine\.factory\.class"
            r"|sasl\.oauthbearer\.[\w.]+\.class|partition\.assignment\.strategy)$|\.override\.partitioner\.class$"
            r"|\.override\.(?:key|value)\.(?:de)?serializer$|^hibernate\..*class$"
        ),
    ),
    (Concern.PROVIDERS, r"(?:^|\.)config\.providers(?:$|\.)"),
    (Concern.FILE, r"(?:^|\.)file\.filename$|^signal\.file$|^fs\.listing\.directory\.path$|^file$"),
    (Concern.FILE, r"^(?:input|finished|error)\.path$"),
    (Concern.JNDI, r"(?:^|\.)(?:java\.naming|jndi)\."),
    (Concern.COMMAND, r"(?:^|\.)sasl\.kerberos\.kinit\.cmd$"),
    (Concern.LANGUAGE, r"\.language$"),
    (Concern.ADDRESS, r"^camel\.(?:sink|source)\.(?:url|endpoint)"),
)
_PATTERNS = tuple((concern, re.compile(pattern, re.IGNORECASE)) for concern, pattern in _BY_END)


def find_concerns(key: str) -> frozenset[Concern]:
    """What the key is about; nothing, for most of them."""
    found = {concern for concern, pattern in _PATTERNS if pattern.search(key)}
    if is_dangerous_parameter(key):
        found.add(Concern.PARAMETER)
    if _has_unseen(key):
        found.add(Concern.UNSEEN)
    return frozenset(found)


def _has_unseen(key: str) -> bool:
    return key != key.strip() or not key or any(unicodedata.category(char)[0] in "CZ" and char != " " for char in key)


_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|' r"'(?:[^'\\\n]|\\.)*'")
# A text that people write; anything else in that place may be the secret itself and is not shown.
_MODULE = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+Module")


def check_jaas(key: str, value: str, policy: Policy) -> Iterator[Violation]:
    """Whether every login module is allowed. A whole reference is left to the rules on config providers."""
    if is_reference(value):
        return
    for module in find_modules(value):
        if not is_listed(module, policy.login_modules):
            yield build_violation("P006", key, module if _MODULE.fullmatch(module) else "")


def find_modules(text: str) -> tuple[str, ...]:
    """The first word of every entry; a single empty word where Java might read the text in another way than we do."""
    bare = _QUOTED.sub(" x ", text)
    # Java takes a slash for the beginning of a comment, and a lone quotation mark for that of a text.
    if any(mark in bare for mark in "/\"'"):
        return ("",)
    entries = [entry.split() for entry in bare.split(";")]
    return tuple(entry[0] for entry in entries if entry) or ("",)


SECRET_SCHEME = "secret://"  # noqa: S105 - the scheme of references, no secret
_ENVIRONMENT = frozenset({"env", "environment"})
_FILES = frozenset({"file", "dir", "directory"})
# Beside the secrets of connectors lie those of the worker and of the machine. These need to be named in full.
_OWN_SECRETS = (
    "/**/kubernetes.io/**",
    "/**/connect-*.properties",
    "/**/*worker*.properties",
    "/**/server*.properties",
    "/**/*broker*.properties",
    "/**/controller*.properties",
    "/**/*jaas*",
    "/**/kafka.properties",
    "/**/kafka-connect.properties",
)
_LONGEST_SHOWN = 200
REFERENCE_RULE = "P018"
_WORD = re.compile(r"[\w.-]{1,40}")
_PATH = re.compile(r"[\w./ -]{1,200}")


def has_reference(value: str) -> bool:
    """Whether Connect would put something else in some place of the value."""
    return "${" in value and any(find_references(value))


def find_references(value: str) -> Iterator[tuple[str, str, str]]:
    """Provider, path and key of each reference, as Kafka's ConfigTransformer finds them.

    Its pattern takes cubic time for a hostile value; this takes linear time.
    """
    start = value.find("${")
    while start >= 0 and (end := value.find("}", start)) >= 0:
        provider, colon, rest = value[start + 2 : end].partition(":")
        if colon:
            path, second, key = rest.partition(":")
            yield (provider, path, key) if second else (provider, "", path)
        start = value.find("${", end)


def check_references(key: str, value: str, policy: Policy) -> Iterator[Violation]:
    """Whether every provider, path and variable that a value refers to is allowed."""
    for provider, path, name in find_references(value):
        if not is_listed(provider, policy.config_providers):
            yield build_violation("P010", key, provider if _WORD.fullmatch(provider) else "")
        elif provider.lower() in _ENVIRONMENT:
            if path or not is_listed(name, policy.environment):
                yield build_violation("P012", key, name if _WORD.fullmatch(name) else "")
        elif _is_file(provider, path) and not is_allowed_path(path, policy):
            yield build_violation("P011", key, path if _PATH.fullmatch(path) else "")


def _is_file(provider: str, path: str) -> bool:
    """Whether a file is read. A worker may call its providers as it likes, so the look of the path counts too."""
    return provider.lower() in _FILES or path.startswith("/") or ".." in path


def is_allowed_path(path: str, policy: Policy) -> bool:
    """Whether config providers may read a file of the worker."""
    if path in policy.provider_paths:
        return is_listed_path(path, (path,))
    return is_listed_path(path, policy.provider_paths) and not is_listed_path(path, _OWN_SECRETS)


def check_secret_reference(key: str, value: str, policy: Policy) -> Iterator[Violation]:
    """Check whether the policy allows a reference that seamark itself resolves."""
    if value.startswith(SECRET_SCHEME) and not is_allowed_reference(value, policy):
        # A reference names a secret and isn't one, so the refusal can show it.
        yield build_violation(
            REFERENCE_RULE, key, value if value.isprintable() and len(value) <= _LONGEST_SHOWN else ""
        )


def is_allowed_reference(reference: str, policy: Policy) -> bool:
    """Return whether a policy lists a reference.

    `..` matches no pattern, because it leads out of the folder that the pattern names.
    """
    if reference in policy.references:
        return True
    is_plain = ".." not in re.split(r"[/#]", reference) and "\0" not in reference
    return is_plain and is_listed(reference, policy.references)


Check = Callable[[str, str, Policy], Iterator[Violation]]
"""What a key's value is held against: key, value and policy give the violations."""

_CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*")
# These evaluate a condition in a language of the caller's choice, Groovy by habit.
_SCRIPTING = re.compile(
    r"io\.debezium\.transforms\.filter|(?:io\.debezium\.transforms\.)?contentbasedrouter", re.IGNORECASE
)
_RUNNING = re.compile(r"camel(?:exec|ssh|docker|language|bean|groovy)", re.IGNORECASE)
_READING = re.compile(r"(?:^|\.)(?:filestream|camelfile|spooldir|filepulse)|\.spooldir\.|\.filepulse\.", re.IGNORECASE)
_SCRIPT_ADDRESS = re.compile(r"\s*(?:exec|ssh|docker|language|bean|class|groovy|script)\s*:", re.IGNORECASE)
_SCRIPT_LANGUAGE = re.compile(r"\s*(?:jsr223|groovy|graal|javascript|js\b)", re.IGNORECASE)
_FILE_URL = re.compile(r"^\s*(?:file|jar|netdoc)\s*:|(?:[\s,;=(\[:])(?:file|netdoc):(?=[/\\])", re.IGNORECASE)
_JNDI = re.compile(r"\bjndi\s*:|\b(?:ldaps?|rmi|iiop|iiopname|corbaname|corbaloc)\s*:(?://|[\w]*::)", re.IGNORECASE)
# Also as one number, which every resolver takes for an address.
_METADATA = re.compile(
    r"169\.254\.\d|metadata\.google\.internal|fd00:ec2::254|100\.100\.100\.200|2852039166|0xa9fea9fe|0xa9\.0xfe",
    re.IGNORECASE,
)
_LOOKS = re.compile("|".join(found.pattern for found in (_METADATA, _JNDI, _FILE_URL)), re.IGNORECASE)
# None of the rules for every value can be broken without one of these.
_SUSPECT = re.compile(r"[:=%$]|169\.254|metadata\.|100\.100|2852039166|0xa9", re.IGNORECASE)


def check_policy(
    config: Mapping[str, str], *, name: str, policy: Policy = DEFAULT_POLICY, is_new: bool = True
) -> tuple[Violation, ...]:
    """Every rule that a connector's name and config break.

    A connector that is there already keeps its name, unless Connect itself goes wrong under it.
    """
    named = check_name(name) if is_new else check_present_name(name)
    found = [*([named] if named else []), *_check_connector(config, policy)]
    for key, value in config.items():
        for check in _find_checks(key):
            found += check(key, value, policy)
        if _SUSPECT.search(value):
            found += _check_value(key, value, policy)
    return tuple(dict.fromkeys(found))


def _check_connector(config: Mapping[str, str], policy: Policy) -> Iterator[Violation]:
    """What the class alone says. A connector that reads files needs a policy that knows of files."""
    text = config.get("connector.class", "").strip()
    if _READING.search(text) and not policy.files:
        yield build_violation("P004", "connector.class", _show_class(text))
    if _RUNNING.search(text) and not policy.scripts:
        yield build_violation("P016", "connector.class", _show_class(text))


def _build_class_check(rule: str, pick: Callable[[Policy], tuple[str, ...]]) -> Check:
    """A check of every class that a value names. One that Connect would put in later can't be known, so it is not."""

    def check(key: str, value: str, policy: Policy) -> Iterator[Violation]:
        patterns = pick(policy)
        for text in filter(None, map(str.strip, value.split(","))):
            if has_reference(text) or not is_listed(text, patterns):
                yield build_violation(rule, key, _show_class(text))
            elif not policy.scripts and _SCRIPTING.fullmatch(text):
                yield build_violation("P016", key, _show_class(text))

    return check


def _build_check(rule: str, is_broken: Callable[[str, str, Policy], object]) -> Check:
    def check(key: str, value: str, policy: Policy) -> Iterator[Violation]:
        if is_broken(key, value, policy):
            yield build_violation(rule, key)

    return check


def _check_parameter(key: str, value: str, policy: Policy) -> Iterator[Violation]:
    del value
    return check_parameters(key, frozenset({key.rpartition(".")[2].lower()}), policy)


_CHECKS: Mapping[Concern, Check] = MappingProxyType(
    {
        Concern.CONNECTOR: _build_class_check("P002", lambda policy: policy.connector_classes),
        Concern.PLUGIN: _build_class_check("P003", lambda policy: policy.plugin_classes),
        Concern.CLIENT_CLASS: _build_class_check("P008", lambda policy: policy.client_classes),
        Concern.FILE: _build_check("P004", lambda _, value, policy: not is_listed_path(value, policy.files)),
        Concern.OVERRIDE: _build_check("P005", lambda key, _, policy: not is_listed(key, policy.client_overrides)),
        Concern.LOGIN: check_jaas,
        Concern.OAUTH: _build_check("P007", lambda _, value, policy: value and not is_listed(value, policy.oauth_urls)),
        Concern.PROVIDERS: _build_check("P009", lambda *_: True),
        Concern.PARAMETER: _check_parameter,
        Concern.JNDI: _build_check("P015", lambda _, __, policy: not policy.jndi),
        Concern.COMMAND: _build_check("P016", lambda _, __, policy: not policy.scripts),
        Concern.LANGUAGE: _build_check(
            "P016", lambda _, value, policy: not policy.scripts and bool(_SCRIPT_LANGUAGE.match(value))
        ),
        Concern.ADDRESS: _build_check(
            "P016", lambda _, value, policy: not policy.scripts and any(map(_SCRIPT_ADDRESS.match, decode(value)))
        ),
        Concern.UNSEEN: _build_check("P019", lambda *_: True),
    }
)
# Fleets repeat their keys; a large one has some thousand different ones.
_REMEMBERED = 65_536


@lru_cache(maxsize=_REMEMBERED)
def _find_checks(key: str) -> tuple[Check, ...]:
    concerns = find_concerns(key)
    return tuple(check for concern, check in _CHECKS.items() if concern in concerns)


def _check_value(key: str, value: str, policy: Policy) -> Iterator[Violation]:
    """The rules for every value."""
    if "${" in value:
        yield from check_references(key, value, policy)
    yield from check_secret_reference(key, value, policy)
    texts = decode(value)
    if any(_LOOKS.search(text) for text in texts):
        yield from _check_looks(key, texts, policy)
    if is_jdbc_url(value):
        yield from check_url(key, value, policy)
    if any("=" in text for text in texts):
        yield from check_parameters(key, find_parameters(value), policy)


def _check_looks(key: str, texts: tuple[str, ...], policy: Policy) -> Iterator[Violation]:
    """The rules for what can be told by its look alone."""
    if any(map(_METADATA.search, texts)):
        yield build_violation("P017", key)
    if not policy.jndi and any(map(_JNDI.search, texts)):
        yield build_violation("P015", key)
    if any(map(_FILE_URL.search, texts)) and not is_listed_path(_strip_scheme(texts[-1]), policy.files):
        yield build_violation("P004", key)


def _strip_scheme(text: str) -> str:
    return re.sub(r"^\s*file:(?://(?=/))?", "", text, flags=re.IGNORECASE).strip()


def _show_class(text: str) -> str:
    """Return a class name that may be shown; "" for other text, which may contain anything."""
    return text if _CLASS_NAME.fullmatch(text) and len(text) <= 200 else ""
