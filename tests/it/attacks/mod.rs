//! Attacks: what one client does to hurt others, each with the figure that bounds it.

mod declared;
mod http1;
mod http2;
mod idle;
mod trailers;
mod windows;
