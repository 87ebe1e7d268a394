//! The pages: templates, what they are filled in with, and what browsers may do with them.

use std::{fmt, time::Duration};

use askama::Template;
use axum::http::HeaderValue;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use ring::digest;
use strum::VariantArray;

use super::{
    ask::{self, Ask, USUAL},
    attempt::{self, Address},
    history::RecentFigures,
    state::{Server, State},
    view::{Condition, Kind, Version, View},
};
use crate::{
    draw::{
        self,
        escape::{visible, xml_lines},
    },
    frontends::SERVER_NAME,
};

const STYLE: &str = include_str!("page.css");

/// Style of what only the page of a servable has.
const STYLE_OF_SERVABLE: &str = include_str!("servable.css");

/// Script of the page: each file is a part of one script, in this order.
const SCRIPT: &str = concat!(
    include_str!("scripts/format.js"),
    include_str!("scripts/chart.js"),
    include_str!("scripts/live.js"),
    include_str!("scripts/page.js"),
);

/// Script of the page of a servable.
const SCRIPT_OF_SERVABLE: &str = concat!(
    include_str!("scripts/format.js"),
    include_str!("scripts/chart.js"),
    include_str!("scripts/live.js"),
    include_str!("scripts/tensor.js"),
    include_str!("scripts/media.js"),
    include_str!("scripts/request.js"),
    include_str!("scripts/snippet.js"),
    include_str!("scripts/answer.js"),
    include_str!("scripts/try.js"),
    include_str!("scripts/servable.js"),
);

/// Maximum number of servables whose cards are all open.
const MAX_OPEN: usize = 8;

/// Maximum number of servables for which cards with a drawing are open.
const MAX_DRAWN: usize = 24;

/// Content security policies.
pub(super) struct Policies {
    /// Policy of the dashboard.
    pub(super) page: HeaderValue,
    /// Policy of the page of a servable.
    pub(super) servable: HeaderValue,
    /// Policy of a card or a drawing that is shown by itself.
    pub(super) parts: HeaderValue,
}

impl Policies {
    /// Makes the policies, for which all scripts and styles are hashed.
    pub(super) fn new() -> Self {
        Self {
            page: policy(SCRIPT, &style()),
            servable: policy(SCRIPT_OF_SERVABLE, &style_of_servable()),
            parts: header(&format!(
                "default-src 'none'; style-src 'sha256-{}'; frame-ancestors 'none'; sandbox",
                hash(draw::STYLE)
            )),
        }
    }
}

/// Returns what browsers may do with a page: run this script, take this style, ask this server.
fn policy(script: &str, style: &str) -> HeaderValue {
    header(&format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; \
         img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        hash(script),
        hash(style)
    ))
}

/// Returns what they may do with a page of a style and without a script.
pub(in crate::frontends) fn still_policy(style: &str) -> HeaderValue {
    header(&format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; frame-ancestors 'none'",
        hash(style)
    ))
}

fn hash(text: &str) -> String {
    BASE64_STANDARD.encode(digest::digest(&digest::SHA256, text.as_bytes()))
}

fn header(policy: &str) -> HeaderValue {
    HeaderValue::from_str(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

fn style() -> String {
    format!("{STYLE}{}", draw::STYLE)
}

fn style_of_servable() -> String {
    format!("{STYLE}{STYLE_OF_SERVABLE}{}", draw::STYLE)
}

/// The page as a whole.
#[derive(Template)]
#[template(path = "page.html", whitespace = "minimize")]
pub(super) struct DashboardPage<'a> {
    pub(super) state: &'a State,
    pub(super) ask: &'a Ask,
    pub(super) address: &'a Address,
}

/// The same for terminals.
#[derive(Template)]
#[template(path = "page.txt")]
pub(super) struct DashboardText<'a> {
    pub(super) state: &'a State,
}

/// The page of a servable.
#[derive(Template)]
#[template(path = "servable.html", whitespace = "minimize")]
pub(super) struct ServablePage<'a> {
    pub(super) state: &'a State,
    pub(super) view: &'a View,
    pub(super) address: &'a Address,
}

/// The card of a servable.
#[derive(Template)]
#[template(path = "card.html", whitespace = "minimize")]
pub(super) struct ServableCard<'a> {
    pub(super) view: &'a View,
    pub(super) address: &'a Address,
    /// Opens the card even if it needs nobody's attention.
    pub(super) open: bool,
}

impl Server {
    /// Returns the name of the machine with that of the product, for titles.
    fn title(&self) -> String {
        let product = format!("{SERVER_NAME} {}", self.version);
        match &self.host {
            Some(host) => format!("{host} · {product}"),
            None => product,
        }
    }
}

impl RecentFigures {
    /// Returns a quantile of latencies.
    fn quantile(micros: Option<u64>) -> String {
        took(micros.map(Duration::from_micros))
    }
}

impl DashboardPage<'_> {
    /// Returns whether cards like that of a servable are few enough to be open.
    fn has_room(&self, view: &View) -> bool {
        let most = match view.is_drawn() {
            true => MAX_DRAWN,
            false => MAX_OPEN,
        };
        self.state.views.len() <= most
    }
}

/// Returns the condition that the state of a version is like, and the state in words.
fn words(version: &Version) -> (&'static str, &'static str) {
    match (version.state, &version.failure) {
        ("AVAILABLE", _) if version.is_failing => ("failing", "failing"),
        ("AVAILABLE", None) => ("ready", "available"),
        ("AVAILABLE", Some(_)) => ("warning", "available as before"),
        (_, Some(_)) => ("failed", "not loaded"),
        ("UNLOADING", None) => ("retired", "unloading"),
        ("END", None) => ("retired", "unloaded"),
        (_, None) => ("loading", "loading"),
    }
}

/// Writes a count with its thousands apart.
pub(super) fn count(count: impl fmt::Display) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            // Narrow, and no line breaks there.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Writes how long something took, with three digits; a dash if that is not known.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn took(took: Option<Duration>) -> String {
    let Some(took) = took else {
        return "–".to_owned();
    };
    let micros = took.as_nanos() as f64 / 1e3;
    let (value, unit) = if micros < 1e3 {
        (micros, "µs")
    } else if micros < 1e6 {
        (micros / 1e3, "ms")
    } else {
        (micros / 1e6, "s")
    };
    let digits = 2 - usize::from(value >= 10.0) - usize::from(value >= 100.0);
    format!("{value:.digits$} {unit}")
}

/// Writes how often something happens in a second; a dash if that is not known.
pub(super) fn per_second(rate: Option<f64>) -> String {
    match rate {
        None => "–".to_owned(),
        Some(rate) if rate == 0.0 || rate >= 100.0 => count(format_args!("{rate:.0}")),
        Some(rate) if rate < 10.0 => format!("{rate:.2}"),
        Some(rate) => format!("{rate:.1}"),
    }
}

/// Writes an amount of memory; a dash if it is not known.
pub(super) fn memory(kib: Option<u32>) -> String {
    match kib {
        None => "–".to_owned(),
        Some(kib) if kib < 1 << 20 => format!("{} MiB", kib / 1024),
        Some(kib) => format!("{:.1} GiB", f64::from(kib) / f64::from(1 << 20)),
    }
}

/// Writes how long something has been there.
pub(super) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    if days > 0 {
        format!("{days} d {hours} h")
    } else if hours > 0 {
        format!("{hours} h {minutes} min")
    } else if minutes > 0 {
        format!("{minutes} min {rest} s")
    } else {
        format!("{rest} s")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{age, count, memory, per_second, took};

    #[test]
    fn numbers_are_readable() {
        let counts = [0, 999, 1000, 1_234_567].map(count);
        assert_eq!(
            counts,
            ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]
        );
        let times = [1, 12, 123, 1234, 123_456, 12_345_678];
        let times = times.map(|micros| took(Some(Duration::from_micros(micros))));
        assert_eq!(
            times,
            [
                "1.00 µs", "12.0 µs", "123 µs", "1.23 ms", "123 ms", "12.3 s"
            ]
        );
        assert_eq!(took(None), "–");
        let rates = [None, Some(0.0), Some(2.5), Some(12.34), Some(1234.5)];
        assert_eq!(
            rates.map(per_second),
            ["–", "0", "2.50", "12.3", "1\u{202f}234"]
        );
        let sizes = [None, Some(2048), Some(3 << 20)].map(memory);
        assert_eq!(sizes, ["–", "2 MiB", "3.0 GiB"]);
        let ages = [7, 61, 3600 * 5 + 60, 86_400 * 3 + 7200];
        let ages = ages.map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(ages, ["7 s", "1 min 1 s", "5 h 1 min", "3 d 2 h"]);
    }
}
