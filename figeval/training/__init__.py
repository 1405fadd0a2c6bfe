"""Fine-tuning: one loop, and the contract that every learner keeps. It knows no task and no model."""
