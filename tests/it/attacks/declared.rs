//! Lengths that are declared and never sent.
