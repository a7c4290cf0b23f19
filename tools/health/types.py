"""Type errors and ignores by package, as mypy counts them: ``python -m tools.health.types``.

The folders ``codegen``, ``runtime`` and ``contrib`` are packages below ``byoc`` (``package_dir`` in ``setup.cfg``),
which mypy sees in a tree of links; ``mypy.ini`` and ``pyproject.toml`` lead other runs of mypy, and editors by
Pyright, to it. With ``--gate`` the exit status is 1 where a number is above the one in
``type_limits.json``; with ``--lower`` the limits become what is measured where that is less, so that they only fall.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.health.sources import FOLDERS, ROOT

CACHE = ROOT / ".mypy_cache"
LIMITS = Path(__file__).with_name("type_limits.json")
APART = tuple(folder.name for package, folder in FOLDERS.items() if package != "byoc")  # not below byoc's folder
_ERROR = re.compile(r"byoc/(\w+)(?:\.py|/[^:]*):\d+: error: .*\[([\w-]+)\]$")
_IGNORE = re.compile(r"#\s*type:\s*ignore")


@dataclass(frozen=True)
class Health:
    """Errors by package, strict and plain, the ``type: ignore`` comments, and how many of these nothing needs."""

    strict: Mapping[str, int]
    plain: Mapping[str, int]
    ignores: Mapping[str, int]
    unused: int

    def to_json(self) -> dict[str, object]:
        """The numbers that are held."""
        numbers = {"strict": dict(sorted(self.strict.items())), "plain": dict(sorted(self.plain.items()))}
        return {**numbers, "ignores": sum(self.ignores.values())}


def mapped_tree() -> Path:
    """A folder with the package ``byoc`` as it is installed, made of links."""
    package = CACHE / "tree" / "byoc"
    package.mkdir(parents=True, exist_ok=True)
    sources = [p for p in (ROOT / "byoc").iterdir() if p.suffix == ".py" or p.name == "py.typed" or p.is_dir()]
    wanted = {p.name: p for p in (*sources, *(ROOT / name for name in APART)) if p.name != "__pycache__"}
    for link in package.iterdir():
        if link.name not in wanted or not link.exists():
            link.unlink()
    for name, source in wanted.items():
        if not (package / name).exists():
            (package / name).symlink_to(os.path.relpath(source, package))
    return package.parent


def checked(tree: Path, *options: str) -> list[tuple[str, str]]:
    """The package and the code of each error that mypy finds. Raises RuntimeError where it cannot run."""
    cache = CACHE / ("strict" if "--strict" in options else "plain")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "mypy.ini"), "--cache-dir", str(cache)]
    done = subprocess.run(
        [*command, *options, "-p", "byoc"],
        cwd=tree,
        env={**os.environ, "MYPYPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"mypy ends with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return [(m[1], m[2]) for line in done.stdout.splitlines() if (m := _ERROR.match(line))]


def ignores(tree: Path) -> Counter[str]:
    """The ``type: ignore`` comments by package."""
    found: Counter[str] = Counter()
    for entry in sorted((tree / "byoc").iterdir()):
        for path in entry.rglob("*.py") if entry.is_dir() else [entry]:
            found[entry.stem] += sum(map(bool, map(_IGNORE.search, path.read_text().splitlines())))
    return found


def measure() -> Health:
    """The numbers of this checkout."""
    tree = mapped_tree()
    strict, plain = checked(tree, "--strict"), checked(tree)
    unused = sum(code == "unused-ignore" for _, code in strict)
    return Health(Counter(p for p, _ in strict), Counter(p for p, _ in plain), ignores(tree), unused)


def table(health: Health) -> str:
    """The numbers by package, one a line, and their sums."""
    packages = sorted({*health.strict, *health.plain, *(p for p, n in health.ignores.items() if n)})
    rows = [(p, health.strict.get(p, 0), health.plain.get(p, 0), health.ignores.get(p, 0)) for p in packages]
    rows.append(("all", *(sum(row[k] for row in rows) for k in (1, 2, 3))))
    lines = [f"{'package':12}{'strict':>8}{'plain':>8}{'ignores':>9}"]
    lines += [f"{name:12}{strict:8}{plain:8}{count:9}" for name, strict, plain, count in rows]
    return "\n".join([*lines, f"unused ignores: {health.unused}"])


def beyond(health: Health, limits: Mapping[str, Mapping[str, int] | int]) -> list[str]:
    """What is above its limit, a sentence each; a package without a limit has none at all."""
    problems = []
    for kind, found in (("strict", health.strict), ("plain", health.plain)):
        allowed = limits[kind]
        assert isinstance(allowed, Mapping)
        problems += [
            f"byoc.{package}: {count} {kind} type errors, {allowed.get(package, 0)} allowed"
            for package, count in sorted(found.items())
            if count > allowed.get(package, 0)
        ]
    count, most = sum(health.ignores.values()), limits["ignores"]
    assert isinstance(most, int)
    if count > most:
        problems.append(f"{count} comments `type: ignore`, {most} allowed")
    if health.unused:
        problems.append(f"{health.unused} comments `type: ignore` that nothing needs: remove them")
    return problems


def lowered(health: Health, limits: Mapping[str, Mapping[str, int] | int]) -> dict[str, object]:
    """*limits*, with what is less now as it is now."""
    result: dict[str, object] = {}
    for kind, found in (("strict", health.strict), ("plain", health.plain)):
        allowed = limits[kind]
        assert isinstance(allowed, Mapping)
        result[kind] = {p: min(n, found[p]) for p, n in sorted(allowed.items()) if found.get(p)}
    most = limits["ignores"]
    assert isinstance(most, int)
    return {**result, "ignores": min(most, sum(health.ignores.values()))}


def main() -> int:
    """The command: 0, or 1 with ``--gate`` where a number is above its limit."""
    parser = argparse.ArgumentParser(prog="python -m tools.health.types", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--gate", action="store_true", help="fail where a number is above its limit")
    parser.add_argument("--lower", action="store_true", help="write what is less now into the limits")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--tree", action="store_true", help="only make the tree of links, which editors are led to")
    arguments = parser.parse_args()
    if arguments.tree:
        print(mapped_tree())
        return 0
    health = measure()
    print(table(health))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(health.to_json(), indent=2) + "\n")
    limits = json.loads(LIMITS.read_text())
    if arguments.lower:
        LIMITS.write_text(json.dumps(lowered(health, limits), indent=2) + "\n")
    problems = beyond(health, limits) if arguments.gate else []
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
