"""The `leakboard` command. Heavy imports happen inside commands, so that help answers at once."""

from __future__ import annotations

import errno
import os
import sys

import typer

from benchmark.cli import (
    audit,
    browse,
    check,
    compare,
    export,
    merge,
    new,
    orderings,
    pages,
    publish,
    report,
    running,
    show,
    snapshots,
    submit,
    table,
    verify,
)
from benchmark.cli.options import Csv, Json
from benchmark.errors import UserError, printable

app = typer.Typer(
    help="Measure how much private text shared gradients leak, and what each defense changes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("list")(browse.list_)
app.command()(browse.describe)
app.command()(running.run)
app.command()(merge.merge)
app.command()(publish.publish)
app.command()(new.new)
app.command()(check.check)
app.command()(pages.score)
app.command()(pages.site)
app.command()(export.export)
app.command()(show.show)
app.command()(compare.compare)
app.command()(table.table)
app.command()(report.report)
app.command()(orderings.orderings)
app.command()(submit.submit)
app.command("import")(submit.import_)
app.command()(verify.verify)
app.command()(audit.audit)
app.add_typer(snapshots.app, name="snapshots", no_args_is_help=True)


@app.command()
def doctor(as_json: Json = False, as_csv: Csv = False) -> None:
    """Tell what this machine offers and what is missing."""
    from benchmark.cli.doctor import examine, report
    from benchmark.cli.output import emit, output_format

    form = output_format(as_json, as_csv)
    findings = list(examine())
    emit([vars(finding) for finding in findings], form, lambda: report(findings))


def main() -> None:
    """Entry point: a user's mistake is one sentence and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except UserError as error:
        _complain(str(error))
    except BrokenPipeError:  # `leakboard list tasks | head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}; {_remedy(error)}.")
    except (KeyboardInterrupt, typer.Abort):
        print("Interrupted; the same command goes on from here.", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message())
            sys.exit(0)
        _complain(f"{message().rstrip('.')}; see `leakboard --help`.")


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space, and the same command goes on from here"
    return "check the path and its permissions"


def _complain(sentence: str) -> None:
    print(printable(f"leakboard: {sentence}"), file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
