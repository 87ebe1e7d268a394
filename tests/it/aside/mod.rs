//! Tests that wait for minutes of a server's own clock. Tests begin in the order of their names: these are the first, and the
//! others go beside them.

mod cleaner;
