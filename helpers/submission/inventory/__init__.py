"""What the cluster has, and where on it a job fits."""
