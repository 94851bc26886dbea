"""What the jobs of a cluster have used: comments, sacct and a real slurmdbd, completion logs."""
