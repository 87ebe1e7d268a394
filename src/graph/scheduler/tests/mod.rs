//! The rules, with calculators that are closures.

mod bounds;
mod errors;
mod life;
mod limits;
mod loops;
mod property;
mod random;
mod rig;
