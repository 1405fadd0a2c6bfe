"""Fine-tuning: one loop for all task types and models, which differ only in their learner (`contract`)."""
