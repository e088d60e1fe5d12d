"""What the commands do: train a model, predict with it, evaluate it."""
