//! The pages: templates, what they are filled in with, and what browsers may do with them.

use askama::Template;
use axum::http::HeaderValue;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use ring::digest;

use super::{
    ask::{self, Ask, USUAL},
    attempt::{self, Address},
    markup,
    state::State,
    view::{Condition, Kind, Version, View},
};
use crate::{
    draw::{self, escape::xml_lines},
    frontends::SERVER_NAME,
};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Up to so many servables have their cards open.
const MAX_OPEN: usize = 8;

/// Up to so many, those with a drawing have.
const MAX_DRAWN: usize = 24;

/// Returns what browsers may do with the page: run this script, take this style, ask this server.
pub(super) fn policy() -> HeaderValue {
    header(&format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; \
         img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(&style())
    ))
}

/// Returns what they may do with a card or a drawing that they are shown by itself: look at it.
pub(super) fn policy_of_parts() -> HeaderValue {
    header(&format!(
        "default-src 'none'; style-src 'sha256-{}'; frame-ancestors 'none'; sandbox",
        hash(draw::STYLE)
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

/// The page as a whole.
#[derive(Template)]
#[template(path = "page.html", whitespace = "minimize")]
pub(super) struct DashboardPage<'a> {
    pub(super) state: &'a State,
    pub(super) ask: &'a Ask,
    pub(super) address: &'a Address,
}

/// The card of a servable.
#[derive(Template)]
#[template(path = "card.html", whitespace = "minimize")]
pub(super) struct ServableCard<'a> {
    pub(super) view: &'a View,
    pub(super) address: &'a Address,
    /// Whether it is open even if nobody is needed.
    pub(super) open: bool,
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
    let is_failing = version.broken.as_ref().is_some_and(|(_, failing)| *failing);
    match (version.state, &version.failure) {
        ("AVAILABLE", _) if is_failing => ("failing", "failing"),
        ("AVAILABLE", None) => ("ready", "available"),
        ("AVAILABLE", Some(_)) => ("warning", "available as before"),
        (_, Some(_)) => ("failed", "not loaded"),
        ("UNLOADING", None) => ("retired", "unloading"),
        ("END", None) => ("retired", "unloaded"),
        (_, None) => ("loading", "loading"),
    }
}
