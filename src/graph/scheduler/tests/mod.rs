//! Tests of the rules, on calculators as closures.

mod bounds;
mod errors;
mod life;
mod limits;
mod loops;
mod property;
mod random;
mod rig;
