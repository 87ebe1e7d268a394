//! Attacks: what one client does to hurt others, each with the figure that bounds it.

mod browsers;
mod claims;
mod declared;
mod disclosure;
mod fetches;
mod gzip;
mod http1;
mod http2;
mod idle;
mod images;
mod large;
mod log;
mod management;
mod memory;
mod paths;
mod pickle;
mod poison;
mod queues;
mod recursion;
mod small;
mod trailers;
mod watchers;
mod windows;
