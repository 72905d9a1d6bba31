"""`seamark completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from seamark.cli.main import COMPLETE_VAR
from seamark.cli.options import pass_session
from seamark.cli.session import Session
from seamark.errors import UsageError


@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@pass_session
def completion(session: Session, shell: str) -> None:
    r"""Write the completion script of a shell.

    \b
    bash:  eval "$(seamark completion bash)"     in ~/.bashrc
    zsh:   eval "$(seamark completion zsh)"      in ~/.zshrc
    fish:  seamark completion fish > ~/.config/fish/completions/seamark.fish
    """
    script = get_completion_class(shell)
    if script is None:
        raise UsageError(f"there is no completion for {shell}")
    root = click.get_current_context().find_root().command
    source = script(root, {}, "seamark", COMPLETE_VAR)
    # Not `.source()`: for bash that runs a bash to ask for its version.
    session.out.write(source.source_template % source.source_vars())
