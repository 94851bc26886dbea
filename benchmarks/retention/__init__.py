"""What it costs to remove old jobs."""
