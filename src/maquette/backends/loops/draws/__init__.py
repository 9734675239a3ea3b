"""Random numbers as loops: the engine, normal numbers in blocks, samplers that reject."""
