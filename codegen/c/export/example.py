"""``main.c``: an example that fills the inputs from files or with zeros, runs the model and shows what comes out."""

from __future__ import annotations

from byoc.codegen.c.export.interface import ExportedArgument, Interface
from byoc.codegen.c.export.options import ExportOptions, joined
from byoc.codegen.kernel.writer import comment_text

_READ = """/* Fill *size* bytes from a file that holds just as many: 0, or 1 with a message. */
static int read_file(const char *path, void *data, size_t size) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    fprintf(stderr, "%s: the file cannot be opened\\n", path);
    return 1;
  }
  const size_t count = fread(data, 1, size, file);
  const int more = fgetc(file) != EOF;
  fclose(file);
  if (count == size && !more) return 0;
  fprintf(stderr, "%s: the file must hold %lu bytes\\n", path, (unsigned long)size);
  return 1;
}
"""
_WRITE = """/* Write *size* bytes to a file in a folder: 0, or 1 with a message. */
static int write_file(const char *folder, const char *name, const void *data, size_t size) {
  char path[1024];
  if (snprintf(path, sizeof path, "%s/%s.bin", folder, name) >= (int)sizeof path) return 1;
  FILE *file = fopen(path, "wb");
  if (!file) {
    fprintf(stderr, "%s: the file cannot be written\\n", path);
    return 1;
  }
  const size_t count = fwrite(data, 1, size, file);
  if (fclose(file) == 0 && count == size) return 0;
  fprintf(stderr, "%s: the file could not be written whole\\n", path);
  return 1;
}
"""
_SHOW = """static void show_@T(const char *name, const @T *data, long count) {
  printf("%s:", name);
  for (long k = 0; k < count && k < 8; ++k) {
    printf(" ");
    printf(@Fdata[k]);
  }
  if (count > 8) printf(" ... (%ld)", count);
  printf("\\n");
}
"""
_USAGE = """static int usage(const char *program) {
  fprintf(stderr, "usage: %s [-n RUNS] [-o FOLDER] [FILE...]\\n"
    "FILE: the bytes of one input, in the order of the model's; - or none at all for zeros\\n"
    "-n: run so often and print the time; -o: write each output to FOLDER\\n", program);
  return 2;
}
"""


def write_example(interface: Interface, options: ExportOptions) -> str:
    """The text of ``main.c``."""
    upper = options.symbol.upper()
    head = [
        f"/* An example for {comment_text(interface.title)}: one run, all memory static. */",
        "#include <stdio.h>",
        "#include <stdlib.h>",
        "#include <string.h>",
        "#include <time.h>",
        "",
        f'#include "{options.symbol}.h"',
        "",
        *_memory(interface, options),
    ]
    read = _READ if interface.inputs or interface.weights else ""
    return joined(["\n".join([*head, ""]), read, _WRITE, *_show(interface), _USAGE, _main(interface, options, upper)])


def _memory(interface: Interface, options: ExportOptions) -> list[str]:
    upper = options.symbol.upper()
    lines = [f"static {a.ctype} {_variable(a)}[{_length(a, upper)}];" for a in (*interface.inputs, *interface.outputs)]
    blocks = [("arena", interface.arena), ("weights", interface.weights)]
    for name, size in blocks:
        if size and options.dialect.plain:
            lines.append(f"static union {{ uint8_t bytes[{upper}_{name.upper()}_BYTES]; int64_t aligned; }} {name};")
        elif size:
            place = f"_Alignas({upper}_{name.upper()}_ALIGNMENT) uint8_t bytes[{upper}_{name.upper()}_BYTES]"
            lines.append(f"static struct {{ {place}; }} {name};")
    return lines


def _variable(argument: ExportedArgument) -> str:
    return f"the_{argument.identifier}"


def _length(argument: ExportedArgument, upper: str) -> str:
    return f"{upper}_{argument.macro}_COUNT" if argument.count else "1"


def _show(interface: Interface) -> list[str]:
    """A function a type of the outputs: the first elements."""
    return [_SHOW.replace("@T", t).replace("@F", _format(t)) for t in dict.fromkeys(a.ctype for a in interface.outputs)]


def _format(ctype: str) -> str:
    if ctype in ("float", "double"):
        return '"%.9g", (double)'
    return '"%llu", (unsigned long long)' if ctype.startswith("u") else '"%lld", (long long)'


def _main(interface: Interface, options: ExportOptions, upper: str) -> str:
    symbol = options.symbol
    arguments = [_variable(a) for a in (*interface.inputs, *interface.outputs)]
    arguments.append("&arena" if interface.arena else "0")
    arguments += ["&weights"] if interface.weights else []
    lines = [
        "int main(int argc, char **argv) {",
        "  const char *folder = 0;",
        "  long runs = 1;",
        "  int next = 1, status = 0;",
        "  for (; next + 1 < argc && argv[next][0] == '-' && argv[next][1]; next += 2) {",
        '    if (strcmp(argv[next], "-o") == 0) folder = argv[next + 1];',
        '    else if (strcmp(argv[next], "-n") == 0) runs = strtol(argv[next + 1], 0, 10);',
        "    else return usage(argv[0]);",
        "  }",
        f"  if (runs < 1 || argc - next > {upper}_INPUTS) return usage(argv[0]);",
    ]
    if interface.weights:
        lines.append(f'  if (read_file("{symbol}_weights.bin", weights.bytes, {upper}_WEIGHTS_BYTES)) return 2;')
    for a in interface.inputs:
        lines += [
            f'  if (next < argc && strcmp(argv[next], "-") != 0 && '
            f"read_file(argv[next], {_variable(a)}, {upper}_{a.macro}_BYTES)) return 2;",
            "  ++next;",
        ]
    lines += [
        "  const clock_t start = clock();",
        f"  for (long run = 0; run < runs && status == {upper}_OK; ++run)",
        f"    status = {symbol}_run({', '.join(arguments)});",
        "  const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;",
        f"  if (status != {upper}_OK) {{",
        f'    fprintf(stderr, "{symbol}_run: %d\\n", status);',
        "    return 1;",
        "  }",
    ]
    for a in interface.outputs:
        lines += [
            f'  show_{a.ctype}("{a.identifier}", {_variable(a)}, {upper}_{a.macro}_COUNT);',
            f'  if (folder && write_file(folder, "{a.identifier}", {_variable(a)}, {upper}_{a.macro}_BYTES)) return 2;',
        ]
    lines += ['  if (runs > 1) printf("%.3f ms a run\\n", 1e3 * seconds / (double)runs);', "  return 0;", "}"]
    return "\n".join(lines) + "\n"
