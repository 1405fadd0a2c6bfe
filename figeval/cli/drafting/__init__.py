"""First drafts of task files, made from data: what columns hold, which task they are, and what `eval.yaml` says."""
