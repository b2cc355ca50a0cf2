"""The ranked tables of a suite as CSV and as LaTeX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmark.metrics.table import METRICS
from leaderboard.figures.draw import to_csv
from leaderboard.render.formatting import number
from leaderboard.views.attacks import AttackPanel, RankedAttack
from leaderboard.views.papers import ComparedTable
from leaderboard.views.suite import SuiteView

SPECIAL = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def attack_rows(view: SuiteView) -> str:
    """The table of attacks as CSV, folded variants included."""
    return to_csv(
        [
            row
            for panel in view.panels
            for attack in panel.attacks
            for each in (attack, *attack.variants)
            for row in _attack_rows(panel, each)
        ]
    )


def _attack_rows(panel: AttackPanel, attack: RankedAttack) -> Iterator[Mapping[str, object]]:
    for metric, score in attack.scores.items():
        yield {
            "family": panel.family,
            "attack": attack.name,
            "baseline": attack.row.baseline,
            "metric": metric,
            "rank": score.rank or None,
            "shared": score.shared,
            "mean": score.value.mean,
            "low": score.value.low,
            "high": score.value.high,
            "n": score.value.n,
            "tasks": attack.lines,
            "panel": len(panel.lines),
            "seconds": attack.seconds,
            "peak_mb": attack.peak_mb,
            "verified": attack.verified,
        }


def defense_rows(view: SuiteView) -> str:
    """The table of defenses as CSV."""
    return to_csv(
        [
            {
                "task": each.task.name,
                "seed": each.board.seed,
                "defense": line.entry.defense,
                "rank": line.entry.rank or None,
                "shared": line.entry.shared,
                "metric": each.board.metric,
                "worst_case": line.entry.strongest.value.mean,
                "low": line.entry.strongest.value.low,
                "high": line.entry.strongest.value.high,
                "attack": line.entry.strongest.attack,
                "panel_tried": line.tried,
                "panel": len(line.entry.case.panel),
                "utility_metric": each.utility_metric,
                "utility": line.utility.mean if line.utility else None,
                "utility_low": line.utility.low if line.utility else None,
                "utility_high": line.utility.high if line.utility else None,
                "slowdown": line.slowdown,
                "bytes_up": line.bytes_up,
                "epsilon": line.epsilon,
                "pareto_front": line.front,
            }
            for each in view.defended
            for line in each.defenses
        ]
    )


def paper_rows(each: ComparedTable) -> str:
    """A paper's table beside ours as CSV."""
    return to_csv(
        [
            {
                "row": row.label,
                "metric": metric,
                "reported": row.reported.get(metric),
                "ours": row.ours[metric].mean if metric in row.ours else None,
                "low": row.ours[metric].low if metric in row.ours else None,
                "high": row.ours[metric].high if metric in row.ours else None,
                "note": row.note,
            }
            for row in each.rows
            for metric in each.table.shown
        ]
    )


# ------------------------------------------------------------------------------------------ LaTeX


def latex(views: Sequence[SuiteView]) -> str:
    """The ranked tables of all suites for a paper, with booktabs."""
    parts = [part for view in views for part in (*_latex_attacks(view), *_latex_defenses(view))]
    return "% Needs \\usepackage{booktabs}.\n" + "\n".join(parts)


def _latex_attacks(view: SuiteView) -> Iterator[str]:
    for panel in view.panels:
        heads = ["Rank", "Attack", *(METRICS[m].title for m in panel.metrics), "Seconds"]
        rows = []
        for attack in panel.attacks:
            first = attack.scores.get(panel.metrics[0])
            rank = f"{'=' if first.shared else ''}{first.rank}" if first and first.rank else "--"
            values = [_value(attack, metric) for metric in panel.metrics]
            rows.append([rank, _escaped(attack.name), *values, _plain(attack.seconds)])
        title = f"Attacks on {panel.family or 'other tasks'}, suite {view.name}, undefended."
        yield _table(title, heads, rows)


def _latex_defenses(view: SuiteView) -> Iterator[str]:
    for each in view.defended:
        utility = METRICS[each.utility_metric].title if each.utility_metric else "Utility"
        heads = ["Rank", "Defense", f"Worst case, {METRICS[each.board.metric].title}", utility]
        rows = [
            [
                f"{'=' if line.entry.shared else ''}{line.entry.rank}" if line.entry.rank else "--",
                _escaped(line.entry.defense),
                ("" if line.entry.rank else r"$\geq$") + _plain(line.entry.strongest.value.mean),
                _plain(line.utility.mean if line.utility else None),
            ]
            for line in each.defenses
        ]
        yield _table(f"Defenses on {each.task.name}, seed {each.board.seed}.", heads, rows)


def _value(attack: RankedAttack, metric: str) -> str:
    score = attack.scores.get(metric)
    if not score:
        return "--"
    value = score.value
    return f"{_plain(value.mean)} [{_plain(value.low)}, {_plain(value.high)}]"


def _plain(value: float | None) -> str:
    return number(value).replace("–", "--").replace("−", "-").replace("<", r"$<$")


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [
        r"\begin{table}",
        rf"\caption{{{_escaped(title)}}}",
        rf"\begin{{tabular}}{{rl{'r' * (len(heads) - 2)}}}",
        r"\toprule",
        " & ".join(map(_escaped, heads)) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        *(r"\bottomrule", r"\end{tabular}", r"\end{table}", ""),
    ]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)
