"""What the core itself brings, registered through the hooks that every plugin uses. A table, so nothing is imported."""

from __future__ import annotations

from figeval.hooks import MetricRegistrar, RouteRegistrar, SourceRegistrar, hookimpl

CHOICE = "figeval.task_types.choice"
PAIRS = "figeval.task_types.pairs"
GENERATION = "figeval.task_types.generation"
MOTIF = "figeval.task_types.motif"
SPANS = "figeval.task_types.spans"
JOINT = "figeval.task_types.joint"
COMBINED: tuple[tuple[str, str, tuple[str, ...]], ...] = (  # protocol, start, protocols whose routes it puts together
    ("joint", f"{JOINT}:at_once", ("ranking", "spans")),
    ("joint", f"{JOINT}:in_turn", ("ranking", "spans")),  # only by `route: in_turn` of a task, or --route
)
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
    ("generation", {"write"}, f"{GENERATION}:by_writing", set()),
    ("generation", {"generate"}, f"{GENERATION}:by_decoding", {"write"}),
    ("generation", {"embed"}, f"{GENERATION}:by_retrieval", set()),
    ("generation", {"score_pairs"}, f"{GENERATION}:by_retrieval_score", set()),
    ("similarity", {"embed", "dot"}, f"{MOTIF}:by_distribution_dot", set()),
    ("similarity", {"embed"}, f"{MOTIF}:by_distribution", set()),
    ("similarity", {"score_pairs"}, f"{MOTIF}:by_distribution_score", set()),
    ("similarity", {"loglikelihood"}, f"{MOTIF}:by_distribution_likelihood", {"context", "continuation"}),
    ("similarity", {"embed"}, f"{MOTIF}:by_embedding", set()),  # by --route, or where the task says so
)
FORMATS = ("jsonl", "json", "csv", "tsv")
CLASSES = "figeval.metrics.classes"
RANKING = "figeval.metrics.ranking"
CONTROLS = "figeval.metrics.controls"
NEIGHBOURS = "figeval.metrics.neighbours"
DISTRIBUTIONS = ("by_distribution", "by_distribution_dot", "by_distribution_score", "by_distribution_likelihood")
NEAREST = ("acc", "mrr", "recall@3", "tied")  # of the nearest neighbours, by each distance
VECTORS = ("cosine", "l2", "l1")  # distances of any points; the Jensen-Shannon distance is one of distributions
FOUND = "figeval.metrics.spans"
TEXTS = "figeval.metrics.texts"
BOTH = "figeval.metrics.joint"  # of spans alone, and of those beside a ranking
LOWER_IS_BETTER = {
    *("position_bias", "tied_cosine", "tied_jsd", "tied_l2", "tied_l1"),
    *("leakage", "repetition_4", "cut_off"),
}
METRICS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (  # name, function, protocols, routes
    ("acc", f"{CLASSES}:accuracy", ("choice", "ranking", "pairs", "joint"), ()),
    ("acc_norm", f"{CLASSES}:acc_norm", ("choice",), ("by_loglikelihood",)),
    ("acc_pmi", f"{CLASSES}:acc_pmi", ("choice",), ("by_loglikelihood",)),
    ("acc_of_all", f"{CONTROLS}:acc_of_all", ("choice", "pairs"), ()),
    ("parse_rate", f"{CONTROLS}:parse_rate", ("choice", "pairs", "spans", "generation"), ()),
    ("consistency", f"{CONTROLS}:consistency", ("choice",), ()),
    ("position_bias", f"{CONTROLS}:position_bias", ("choice",), ()),
    ("macro_f1", f"{CLASSES}:macro_f1", ("pairs",), ()),
    ("balanced_acc", f"{CLASSES}:balanced_accuracy", ("pairs",), ()),
    ("mrr", f"{RANKING}:mrr", ("ranking", "joint"), ()),
    ("recall@1", f"{RANKING}:recall_at_1", ("ranking",), ()),
    ("recall@5", f"{RANKING}:recall_at_5", ("ranking",), ()),
    ("recall@10", f"{RANKING}:recall_at_10", ("ranking",), ()),
    ("acc_near", f"{RANKING}:acc_near", ("ranking", "joint"), ()),
    ("acc_all", f"{RANKING}:acc_all", ("ranking",), ()),
    ("mrr_all", f"{RANKING}:mrr_all", ("ranking",), ()),
    ("span_precision", f"{BOTH}:span_precision", ("spans", "joint"), ()),
    ("span_recall", f"{BOTH}:span_recall", ("spans", "joint"), ()),
    ("span_f1", f"{BOTH}:span_f1", ("spans", "joint"), ()),
    ("squad_f1", f"{BOTH}:squad_f1", ("spans", "joint"), ()),
    ("span_precision_ungated", f"{BOTH}:span_precision_ungated", ("joint",), ("at_once",)),
    ("span_recall_ungated", f"{BOTH}:span_recall_ungated", ("joint",), ("at_once",)),
    ("span_f1_ungated", f"{BOTH}:span_f1_ungated", ("joint",), ("at_once",)),
    ("squad_f1_of_all", f"{FOUND}:squad_f1_of_all", ("spans",), ()),
    ("exact_match", f"{FOUND}:exact_match", ("spans",), ()),
    ("verbatim", f"{FOUND}:verbatim", ("spans",), ("by_json",)),
    ("published_precision", f"{FOUND}:published_precision", ("spans",), ()),
    ("published_recall", f"{FOUND}:published_recall", ("spans",), ()),
    ("published_f1", f"{FOUND}:published_f1", ("spans",), ()),
    ("bleu4", "figeval.metrics.bleu:bleu4", ("generation",), ()),
    ("corpus_bleu", "figeval.metrics.bleu:corpus_bleu", ("generation",), ()),
    ("rouge_l", f"{TEXTS}:rouge_l", ("generation",), ()),
    ("keyword_recall", f"{TEXTS}:keyword_recall", ("generation",), ()),
    ("keyword_recall_lemma", f"{TEXTS}:keyword_recall_lemma", ("generation",), ()),
    ("leakage", f"{TEXTS}:leakage", ("generation",), ()),
    ("repetition_4", f"{TEXTS}:repetition_4", ("generation",), ()),
    ("distinct_1", f"{TEXTS}:distinct_1", ("generation",), ("by_writing", "by_decoding")),
    ("distinct_2", f"{TEXTS}:distinct_2", ("generation",), ("by_writing", "by_decoding")),
    ("length", f"{TEXTS}:length", ("generation",), ()),
    ("cut_off", f"{TEXTS}:cut_off", ("generation",), ("by_decoding",)),
    *((f"{one}_{way}", f"{NEIGHBOURS}:nearest_neighbour", ("similarity",), ()) for one in NEAREST for way in VECTORS),
    *((f"{one}_jsd", f"{NEIGHBOURS}:nearest_neighbour", ("similarity",), DISTRIBUTIONS) for one in NEAREST),
)


@hookimpl
def register_routes(register: RouteRegistrar) -> None:
    """Routes of the built-in protocols."""
    for protocol, needs, start, blocks in ROUTES:
        register(protocol, needs, start, blocks, labels=2 if start.endswith("threshold") else None)
    for protocol, start, of in COMBINED:
        register(protocol, (), start, of=of)


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Readers of plain files."""
    for name in FORMATS:
        register(name, f"figeval.data.formats:open_{name}")


@hookimpl
def register_metrics(register: MetricRegistrar) -> None:
    """Metrics of the built-in protocols."""
    for name, function, protocols, routes in METRICS:
        register(name, function, name not in LOWER_IS_BETTER, protocols, routes)
