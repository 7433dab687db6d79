// A target that only owns a precompiled header needs a source.
