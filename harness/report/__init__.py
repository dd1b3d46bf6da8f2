"""What people read: pure functions from records to tables."""
