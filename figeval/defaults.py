"""What the core itself brings, registered through the hooks that every plugin uses. A table, so nothing is imported."""

from __future__ import annotations

from figeval.hookspecs import hookimpl
from figeval.registry import MetricRegister, RouteRegister, SourceRegister

CHOICE = "figeval.protocols.choice"
PAIRS = "figeval.protocols.pairs"
SPANS = "figeval.protocols.spans"
ROUTES: tuple[tuple[str, set[str], str, set[str]], ...] = (  # protocol, needs, start, template blocks; best first
    ("choice", {"score_pairs"}, f"{CHOICE}:by_pair_score", set()),
    ("choice", {"loglikelihood"}, f"{CHOICE}:by_loglikelihood", {"context", "continuation"}),
    ("choice", {"embed", "dot"}, f"{CHOICE}:by_dot", set()),
    ("choice", {"embed"}, f"{CHOICE}:by_cosine", set()),
    ("choice", {"generate"}, f"{CHOICE}:by_letter", {"letter"}),
    ("choice", {"loglikelihood"}, f"{CHOICE}:by_letter_likelihood", {"letter"}),  # only by --route
    ("ranking", {"embed", "dot"}, f"{CHOICE}:by_dot", set()),
    ("ranking", {"embed"}, f"{CHOICE}:by_cosine", set()),
    ("ranking", {"score_pairs"}, f"{CHOICE}:by_pair_score", set()),
    ("ranking", {"loglikelihood"}, f"{CHOICE}:by_loglikelihood", {"context", "continuation"}),
    ("pairs", {"label_pairs"}, f"{PAIRS}:by_head", set()),
    ("pairs", {"fill"}, f"{PAIRS}:by_cloze", {"cloze"}),
    ("pairs", {"loglikelihood"}, f"{PAIRS}:by_verbalizer", {"context"}),
    ("pairs", {"score_pairs"}, f"{PAIRS}:by_threshold", set()),
    ("pairs", {"embed"}, f"{PAIRS}:by_cosine_threshold", set()),
    ("pairs", {"generate"}, f"{PAIRS}:by_label_word", {"word"}),
    ("spans", {"find_spans"}, f"{SPANS}:by_head", set()),
    ("spans", {"embed"}, f"{SPANS}:by_window_cosine", set()),
    ("spans", {"score_pairs"}, f"{SPANS}:by_window_score", set()),
    ("spans", {"generate"}, f"{SPANS}:by_json", {"json"}),
)
FORMATS = ("jsonl", "json", "csv", "tsv")
CLASSES = "figeval.metrics.classes"
RANKING = "figeval.metrics.ranking"
CONTROLS = "figeval.metrics.controls"
FOUND = "figeval.metrics.spans"
LOWER_IS_BETTER = {"position_bias"}
METRICS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (  # name, function, protocols, routes
    ("acc", f"{CLASSES}:accuracy", ("choice", "ranking", "pairs"), ()),
    ("acc_norm", f"{CLASSES}:acc_norm", ("choice",), ("by_loglikelihood",)),
    ("acc_pmi", f"{CLASSES}:acc_pmi", ("choice",), ("by_loglikelihood",)),
    ("acc_of_all", f"{CONTROLS}:acc_of_all", ("choice", "pairs"), ()),
    ("parse_rate", f"{CONTROLS}:parse_rate", ("choice", "pairs", "spans"), ()),
    ("consistency", f"{CONTROLS}:consistency", ("choice",), ()),
    ("position_bias", f"{CONTROLS}:position_bias", ("choice",), ()),
    ("macro_f1", f"{CLASSES}:macro_f1", ("pairs",), ()),
    ("balanced_acc", f"{CLASSES}:balanced_accuracy", ("pairs",), ()),
    ("mrr", f"{RANKING}:mrr", ("ranking",), ()),
    ("recall@1", f"{RANKING}:recall_at_1", ("ranking",), ()),
    ("recall@5", f"{RANKING}:recall_at_5", ("ranking",), ()),
    ("recall@10", f"{RANKING}:recall_at_10", ("ranking",), ()),
    ("acc_near", f"{RANKING}:acc_near", ("ranking", "joint"), ()),
    ("acc_all", f"{RANKING}:acc_all", ("ranking",), ()),
    ("mrr_all", f"{RANKING}:mrr_all", ("ranking",), ()),
    ("span_precision", f"{FOUND}:span_precision", ("spans",), ()),
    ("span_recall", f"{FOUND}:span_recall", ("spans",), ()),
    ("span_f1", f"{FOUND}:span_f1", ("spans",), ()),
    ("squad_f1", f"{FOUND}:squad_f1", ("spans",), ()),
    ("squad_f1_of_all", f"{FOUND}:squad_f1_of_all", ("spans",), ()),
    ("exact_match", f"{FOUND}:exact_match", ("spans",), ()),
    ("verbatim", f"{FOUND}:verbatim", ("spans",), ("by_json",)),
    ("published_precision", f"{FOUND}:published_precision", ("spans",), ()),
    ("published_recall", f"{FOUND}:published_recall", ("spans",), ()),
    ("published_f1", f"{FOUND}:published_f1", ("spans",), ()),
)


@hookimpl
def register_routes(register: RouteRegister) -> None:
    """Routes of the built-in protocols."""
    for protocol, needs, start, blocks in ROUTES:
        register(protocol, needs, start, blocks)


@hookimpl
def register_sources(register: SourceRegister) -> None:
    """Readers of plain files."""
    for name in FORMATS:
        register(name, f"figeval.data.formats:open_{name}")


@hookimpl
def register_metrics(register: MetricRegister) -> None:
    """Metrics of the built-in protocols."""
    for name, function, protocols, routes in METRICS:
        register(name, function, name not in LOWER_IS_BETTER, protocols, routes)
