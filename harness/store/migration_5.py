"""Migration 5: resource samples of runs with GPUs tell what is used of those."""

MIGRATION_5 = (
    "ALTER TABLE resource_sample ADD COLUMN gpu_memory_mb FLOAT",
    "ALTER TABLE resource_sample ADD COLUMN gpu_pct FLOAT",
)
