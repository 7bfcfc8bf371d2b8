"""The program `atoll`, put together from its verbs. Data goes to standard output, errors to standard error.

Exit codes in kubectl's manner: 0 done, 1 refused or failed, 2 wrong usage or a topology file that cannot be trusted.
"""

from typing import Any

import typer
from typer.core import TyperGroup

from atoll.cli import manifests, snapshot
from atoll.cli.agent import agent
from atoll.cli.audit.probe import audit_probe
from atoll.cli.audit.verb import audit
from atoll.cli.demo.verb import demo
from atoll.cli.ending import to_its_end
from atoll.cli.explain import explain
from atoll.cli.plan import plan
from atoll.cli.serve import serve
from atoll.cli.shim import shim
from atoll.cli.topology.publish import topology_publish
from atoll.cli.topology.render import topology_render
from atoll.cli.topology.show import topology_show
from atoll.cli.uninstall import uninstall


class Verbs(TyperGroup):
    """Verbs of two words beside one of the first word alone: what follows `audit` is a file, unless it is `probe`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ANN401 - typer's
        two = " ".join(args[:2])
        if two in self.commands:
            return two, self.commands[two], args[2:]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="atoll",
    cls=Verbs,
    help="Whole GPU islands for Kubernetes: one topology domain, or wait and be told why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
topology = typer.Typer(name="topology", help="What is known of a node's GPUs.", no_args_is_help=True)

app.command()(demo)
app.command()(audit)
app.command("audit probe")(audit_probe)
app.command()(explain)
app.command()(plan)
app.command()(uninstall)
app.command()(serve)
app.command()(agent)
app.command()(shim)
topology.command("show")(topology_show)
topology.command("publish")(topology_publish)
topology.command("render")(topology_render)
app.add_typer(topology)
app.add_typer(snapshot.app)
app.add_typer(manifests.app)


def main() -> None:
    to_its_end(app)
