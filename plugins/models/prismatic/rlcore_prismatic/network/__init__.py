"""Vision towers, projector, Llama, critic and adapters."""
