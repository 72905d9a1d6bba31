"""JDBC URLs: which driver, which hosts, and which parameters make a driver run code or read files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seamark.policy.policy import Policy
from seamark.policy.policy_pattern import decode, is_listed_host
from seamark.policy.policy_rules import Violation, build_violation

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
