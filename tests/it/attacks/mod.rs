//! Attacks: what one client does to hurt others, each with the figure that bounds it.

mod declared;
