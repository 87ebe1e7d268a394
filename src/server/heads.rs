//! The heads of HTTP/1 requests as they are read: a line that ends with LF alone is refused, and a head that says in two
//! ways where its body ends.
//!
//! hyper takes both, and a proxy before it may take them otherwise; what one of the two takes
//! for a header or a body is then something else to the other. Everything else about a head is for hyper to
//! validate; here only as much is read of it as shows where the next one begins.

/// The bytes of a line that are kept: enough for the headers that say how a body ends.
const KEPT: usize = 128;

/// Follows requests.
#[derive(Debug, Default)]
pub(super) struct Heads {
    place: Place,
    /// The line so far, without what is beyond [`KEPT`].
    line: Vec<u8>,
    /// Indicates that the line goes on beyond that.
    is_cut: bool,
    /// Indicates that the last byte was a CR.
    after_cr: bool,
    length: Option<u64>,
    is_chunked: bool,
    /// Bytes of the head that is not at its end.
    head: usize,
    /// Bytes of the longest head that has ended since somebody asked.
    ended: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The beginning of a request, up to its first line.
    #[default]
    Start,
    Head,
    /// The rest of a body, in bytes.
    Body(u64),
    Chunk(u64),
    /// The line with a chunk's size.
    Size,
    /// The end of the line behind a chunk.
    ChunkEnd,
    Trailers,
    /// Rejected by hyper as well.
    Lost,
}

impl Heads {
    /// Follows what was read; returns the place of an LF within a head or trailers that has no CR before it,
    /// behind a line that says how a body ends and is longer than any good one, or at the end of a head that has both a
    /// length and chunks (RFC 9112, 6.1).
    pub(super) fn read(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match &mut self.place {
                Place::Body(left) | Place::Chunk(left) => {
                    let step = usize::try_from(*left).map_or(rest.len(), |it| it.min(rest.len()));
                    *left -= step as u64;
                    at += step;
                    if *left == 0 {
                        self.place = match self.place {
                            Place::Body(_) => Place::Start,
                            _ => Place::ChunkEnd,
                        };
                    }
                }
                Place::Lost => return None,
                _ => {
                    let end = memchr::memchr(b'\n', rest);
                    let part = &rest[..end.unwrap_or(rest.len())];
                    let kept = part.len().min(KEPT.saturating_sub(self.line.len()));
                    self.line.extend_from_slice(&part[..kept]);
                    self.is_cut |= kept < part.len();
                    let after_cr = part.last().map_or(self.after_cr, |&byte| byte == b'\r');
                    self.after_cr = after_cr && end.is_none();
                    self.head += part.len() + 1;
                    let end = end?;
                    let is_cut = std::mem::take(&mut self.is_cut) && self.shows_an_end();
                    let is_text =
                        matches!(self.place, Place::Start | Place::Head | Place::Trailers);
                    if is_cut || !after_cr && is_text || self.ends_twice() {
                        self.place = Place::Lost;
                        return Some(at + end);
                    }
                    at += end + 1;
                    self.line_ended();
                }
            }
        }
        None
    }

    /// Returns about how many bytes of a head have come that is not at its end: what the parser keeps.
    pub(super) fn unfinished(&self) -> usize {
        self.head
    }

    /// Returns about how many bytes the longest head has that has ended since the last call.
    pub(super) fn take_ended(&mut self) -> usize {
        std::mem::take(&mut self.ended)
    }

    /// Returns true within a line that says how long a body or chunk is.
    fn shows_an_end(&self) -> bool {
        let is_named = |name: &str| {
            let start = self.line.get(..name.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
        };
        match self.place {
            Place::Head => is_named("content-length") || is_named("transfer-encoding"),
            place => place == Place::Size,
        }
    }

    /// Returns true at the end of a head after which a body ends in two ways.
    fn ends_twice(&self) -> bool {
        self.place == Place::Head
            && self.length.is_some()
            && self.is_chunked
            && self.line.trim_ascii().is_empty()
    }

    fn line_ended(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = line.trim_ascii();
        self.place = match self.place {
            Place::Start if text.is_empty() => Place::Start,
            Place::Start => Place::Head,
            Place::Head if text.is_empty() => {
                self.ended = self.ended.max(self.head);
                self.body()
            }
            Place::Head => {
                self.header(text);
                Place::Head
            }
            Place::Size => match size(text) {
                Some(0) => Place::Trailers,
                Some(size) => Place::Chunk(size),
                None => Place::Lost,
            },
            Place::ChunkEnd => Place::Size,
            Place::Trailers if text.is_empty() => Place::Start,
            place => place,
        };
        if self.place != Place::Head {
            self.head = 0;
        }
        // Its room for the next.
        self.line = line;
        self.line.clear();
    }

    fn header(&mut self, line: &[u8]) {
        // Nearly no header begins with one of these.
        if !matches!(line[0], b'c' | b'C' | b't' | b'T') {
            return;
        }
        let mut parts = line.splitn(2, |&byte| byte == b':');
        let (name, value) = (parts.next(), parts.next());
        let (Some(name), Some(value)) = (name, value) else {
            return;
        };
        if name.eq_ignore_ascii_case(b"content-length") {
            let digits = str::from_utf8(value.trim_ascii()).ok();
            self.length = Some(digits.and_then(|it| it.parse().ok()).unwrap_or(0));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            // hyper refuses any other.
            self.is_chunked = true;
        }
    }

    /// Returns the place after a head.
    fn body(&mut self) -> Place {
        let length = self.length.take().unwrap_or(0);
        match std::mem::take(&mut self.is_chunked) {
            true => Place::Size,
            false if length > 0 => Place::Body(length),
            false => Place::Start,
        }
    }
}

/// Reads the size of a chunk.
fn size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| !byte.is_ascii_hexdigit()).next()?;
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{Heads, KEPT};

    /// The place of the LF that is refused, however the bytes are cut.
    fn refused(wire: &str) -> Option<usize> {
        let mut found = Vec::new();
        for size in [1, 2, 3, 7, 20, wire.len()] {
            let mut heads = Heads::default();
            let mut before = 0;
            found.push(wire.as_bytes().chunks(size).find_map(|piece| {
                let refused = heads.read(piece).map(|at| before + at);
                before += piece.len();
                refused
            }));
        }
        assert!(found.iter().all(|it| *it == found[0]), "{wire:?} {found:?}");
        found[0]
    }

    #[test]
    fn an_lf_alone_is_found_in_any_head() {
        let head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(refused(head), None);
        let bad = "GET / HTTP/1.1\nHost: a\r\n\r\n";
        assert_eq!(refused(bad), Some(14));
        assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\n\r\n"), Some(23));
        assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\r\n\n"), Some(25));
        assert_eq!(refused("\nGET / HTTP/1.1\r\n\r\n"), Some(0));
        assert_eq!(refused(&format!("\r\n{head}\r\n{head}")), None);
        assert_eq!(refused(&format!("{head}{bad}")), Some(head.len() + 14));
    }

    #[test]
    fn a_head_is_counted_until_its_end() {
        let mut heads = Heads::default();
        let head = format!("POST / HTTP/1.1\r\nX: {}\r\n", "y".repeat(1000));
        heads.read(head.as_bytes());
        assert_eq!(heads.unfinished(), head.len());
        heads.read(b"Content-Length: 100\r\n\r\n");
        assert_eq!(heads.unfinished(), 0);
        heads.read(&[b'z'; 100]);
        assert_eq!(heads.unfinished(), 0);
    }

    #[test]
    fn bodies_may_have_any_bytes_and_the_next_head_is_found_behind_them() {
        let bad = "GET / HTTP/1.1\nHost: a\r\n\r\n";
        for before in [
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na\n\n",
            "POST / HTTP/1.1\r\ncontent-length:0\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\n\n\r\nA;x=y\r\n0123\n56789\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: y\r\n\r\n",
        ] {
            let wire = format!("{before}{before}{bad}");
            assert_eq!(refused(&wire), Some(2 * before.len() + 14), "{wire:?}");
        }
        for bad in [
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx: y\n",
        ] {
            assert_eq!(refused(bad), Some(bad.len() - 1), "{bad:?}");
        }
        let zeros = "0".repeat(KEPT);
        let long = format!("POST / HTTP/1.1\r\nContent-Length: {zeros}3\r\n");
        assert_eq!(refused(&long), Some(long.len() - 1));
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let long = format!("{chunked}{zeros}3\r\n");
        assert_eq!(refused(&long), Some(long.len() - 1));
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(1000));
        assert_eq!(refused(&format!("{long}{bad}")), Some(long.len() + 14));
    }

    #[test]
    fn a_body_that_ends_in_two_ways_is_refused() {
        let lines = ["Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n"];
        let good = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        for [one, other] in [lines, [lines[1], lines[0]]] {
            let head = format!("{good}POST / HTTP/1.1\r\n{one}Host: a\r\n{other}\r\n");
            assert_eq!(refused(&format!("{head}0\r\n\r\n")), Some(head.len() - 1));
        }
    }

    #[test]
    fn what_is_no_request_is_left_to_the_parser() {
        assert_eq!(
            refused("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n\n\n"),
            None
        );
    }
}
