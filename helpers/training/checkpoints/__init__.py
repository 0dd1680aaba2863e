"""Keep a training's state, whole or not at all, and go on from it."""
