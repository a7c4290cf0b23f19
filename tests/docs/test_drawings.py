"""What the site draws and writes by itself: the map of the packages, the command line's reference, README's picture."""

import networkx
import pytest

from byoc.cli.main import COMMANDS
from tools.site.command_line import command_line_pages, commands, written
from tools.site.package_map import Packages, boxes, package_map
from tools.site.pictures import PICTURE, digits


@pytest.fixture(scope="module")
def packages():
    return Packages.read()


def test_the_map_has_every_package_with_its_rooms_and_arrows_lead_downwards(packages):
    svg = package_map(packages)
    placed = {box.name: box for box in boxes(packages)}
    assert {"byoc.relay", "byoc.partition", "byoc.codegen", "byoc.runtime", "byoc.compat"} <= set(placed)
    assert all(f">{name}</text>" in svg for name in placed)
    assert "transform" in packages.rooms["byoc.relay"] and packages.rooms["byoc.te"].keys() == {""}
    assert all(placed[above].y < placed[below].y for above, below in packages.arrows)
    assert svg.count('marker-end="url(#end)"') == len(packages.arrows)


def test_arrows_that_follow_from_others_are_left_out_and_nothing_else(packages):
    drawn = networkx.DiGraph(packages.arrows)
    assert len(packages.arrows) < packages.imports.number_of_edges()
    assert all(networkx.has_path(drawn, *edge) for edge in packages.imports.edges)


def test_boxes_do_not_overlap(packages):
    placed = boxes(packages)
    for k, one in enumerate(placed):
        for other in placed[k + 1 :]:
            assert one.y + one.height < other.y or one.x + 320 < other.x, (one.name, other.name)


def test_the_reference_has_every_command_with_every_option():
    text = "\n".join(command_line_pages())
    assert list(commands()) == list(COMMANDS)
    for name, command in commands().items():
        section = text.split(f"## byoc {name}\n")[1].split("\n## ")[0]
        assert f"usage: byoc {name}" in section
        for action in command._actions:
            assert f"| {written(action)} |" in section, (name, action.dest)


@pytest.mark.needs_opencl
def test_the_picture_of_readme_is_what_the_plan_draws_now():
    assert PICTURE.read_text(encoding="utf-8") == digits(), "run python -m tools.site.pictures"
