"""How a run goes: device, public randomness, steps, checkpoints and progress."""
