//! Attacks: what one client does to hurt others, each with the figure that bounds it.

mod browsers;
mod declared;
mod gzip;
mod http1;
mod http2;
mod idle;
mod images;
mod large;
mod log;
mod management;
mod memory;
mod poison;
mod queues;
mod small;
mod trailers;
mod watchers;
mod windows;
