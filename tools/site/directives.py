"""The two directives of the site: ``package-map`` draws the map, ``command-line`` writes the commands' reference."""

from __future__ import annotations

from typing import ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tools.site.command_line import command_line_pages
from tools.site.package_map import Packages, package_map


class PackageMap(SphinxDirective):
    """The map of the packages, as they are when the site is built."""

    def run(self) -> list[nodes.Node]:
        """One picture inside the page."""
        picture = nodes.raw("", f'<div class="drawing">{package_map(Packages.read())}</div>', format="html")
        return [picture]


class CommandLine(SphinxDirective):
    """A section for each command, from the parser."""

    option_spec: ClassVar[dict[str, object]] = {}

    def run(self) -> list[nodes.Node]:
        """The sections, read as Markdown like the page around them."""
        container = nodes.section()
        lines = StringList(command_line_pages(), source="byoc --help")
        self.state.nested_parse(lines, 0, container, match_titles=True)
        return container.children


def setup(app: Sphinx) -> dict[str, object]:
    """What Sphinx calls for an extension."""
    app.add_directive("package-map", PackageMap)
    app.add_directive("command-line", CommandLine)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
