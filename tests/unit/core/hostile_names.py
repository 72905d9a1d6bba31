"""Two hundred names that lead elsewhere, show as something else, or mean something to a program on the way. S17."""

from __future__ import annotations

_HOSTS = ("orders", "a")
_PATHS = [
    *(
        "",
        ".",
        "..",
        "...",
        "/",
        "//",
        "../admin",
        "../../etc/passwd",
        "a/../b",
        "a/b",
        "/etc/passwd",
        "a/",
        "a/offsets",
    ),
    *("a/config", "a/tasks/0", "a/restart?includeTasks=true", "..;/admin", "a/./b", "a//b", "connectors/a"),
    *("%2e%2e%2fadmin", "%2f", "%2F", "%252f", "a%00b", "%41", "a%3Bb", "a%", "%", "%c0%af", "a%0d%0ab", "%u002f"),
    *(
        "..\\admin",
        "a\\b",
        "\\\\server\\share",
        "C:\\x",
        "\\",
        "a;b",
        ";",
        "a;x=1",
        "a;jsessionid=1",
        "a{b}",
        "{a}",
        "${a}",
    ),
    *("${env:HOME}", "${jndi:ldap://e/x}", "{{7*7}}", "${{ env.HOME }}", "a}b", "a{", "file:///etc/passwd"),
    *("http://evil/x", "a?expand=info", "a?b", "?", "secret://env/X", ".hidden", ".git", ".ssh", "~", "~root"),
]
_MARKS = [f"a{mark}b" for mark in "*?[]\"<>|&$`!^'"]
_SHELL = [
    *("-rf", "--yes", "-", "$(id)", "`id`", "a|id", "a&&id", "a>b", "a<b", "!x", "*", "a*", "[a]", "a[0]", "$HOME"),
    *(
        "=cmd|' /C calc'!A0",
        "=1+1",
        "+1",
        "@SUM(1)",
        "-1+1",
        "'a'",
        '"a"',
        "a'b",
        'a"b',
        "<script>alert(1)</script>",
        "#a",
    ),
    *("a' OR '1'='1", 'x"; drop table y; --', 'a"}', "a<!--", "]]>", "&amp;"),
]
_CONTROL = [f"a{chr(code)}b" for code in range(0x20)] + [f"a{chr(code)}b" for code in (0x7F, *range(0x80, 0xA0, 3))]
_TERMINAL = [
    *("\x1b[31mred", "\x1b]0;title\x07", "\x1b[2J", "a\rb", "a\r\nb", "\x9b31m", "a\x08b", "a\n", "\na", "\ta", "a\t"),
    *("a\x1b[1A\x1b[2Kb",),
]
_BLANKS = [" ", "  ", "\t", " a", "a ", "\u00a0a", "a\u00a0b", "a\u2003b", "a\u3000", "\u2028", "a\u2029b", "a\u1680b"]
_UNSEEN = [
    f"a{char}b"
    for char in "\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
    "\u00ad\u061c\u180e\ufff9\U000e0041\ue000\ufdd0\uffff\ud800\U0010ffff"
]
_LOOK_ALIKES = [
    *(
        "\u043erders",
        "ord\u0435rs",
        "p\u0430yments",
        "\u0391dmin",
        "\uff41dmin",
        "adm\u2170n",
        "\ufb01le",
        "\u212aelvin",
        "cafe\u0301",
    ),
    *("\U0001d41aa", "a\u2024b", "a\u2044b", "a\uff0fb", "\uff0e\uff0e", "a\uff1bb", "a\ufe68b", "\u2025", "a\u2215b"),
]
_DEVICES = [
    *("CON", "con", "NUL", "nul.json", "PRN", "AUX", "COM1", "lpt9", "com0.txt", "Aux.yaml"),
    "a.",
    "a..",
    "con.tar.gz",
]
_LONG = ["a" * 250, "a" * 10_000, "\ud55c" * 250, "a/" * 200]

NAMES = list(
    dict.fromkeys(
        [*_PATHS, *_MARKS, *_SHELL, *_CONTROL, *_TERMINAL, *_BLANKS, *_UNSEEN, *_LOOK_ALIKES, *_DEVICES, *_LONG]
    )
)

HARMLESS = [
    *(
        "orders",
        "log-purchase",
        "game.public.purchase",
        "S3_sink_1",
        "a",
        "0",
        "A-b_C.d",
        "a" * 249,
        "con-sink",
        "null",
    ),
    *(
        "orders eu",
        "orders (eu)",
        "team:orders",
        "a+b",
        "a@b",
        "a=b",
        "a,b",
        "a#b",
        "größe",
        "日本",
        "주문-원천",
        "заказы",
    ),
    *("παραγγελίες", "Müller & Söhne".replace("&", "und"), "café", "a~b", "_internal", "console", "com10", "lpt"),
]
