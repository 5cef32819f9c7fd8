// The target of the precompiled headers has to compile something.
