"""Train and judge a small network that reads handwritten digits."""
