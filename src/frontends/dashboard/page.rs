//! The page as a whole.

use axum::http::HeaderValue;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use ring::digest;

use super::{
    ask::{Ask, USUAL},
    attempt::Address,
    card,
    markup::{age, count, text},
    state::{Readiness, Server, State, Totals},
    view::{Condition, View},
};
use crate::{draw, frontends::SERVER_NAME};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Diagram for the tab: three layers.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'\
    %3E%3Crect width='16' height='16' rx='4' fill='%230969da'/%3E%3Cpath d='M3 5h10M3 8h10M3 11h6' \
    stroke='white' stroke-width='1.6' stroke-linecap='round'/%3E%3C/svg%3E";

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

/// Writes the page.
pub(super) fn write(state: &State, ask: &Ask, address: &Address) -> String {
    let Server {
        version, runtime, ..
    } = &state.server;
    let runtime = runtime.as_deref().unwrap_or("not open");
    let (readiness, notice) = (state.server.state, state.server.notice.as_deref());
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{SERVER_NAME}</title>\n<link rel=\"icon\" href=\"{ICON}\">\n\
         <style>{}</style>\n</head>\n\
         <body data-started=\"{}\" data-query=\"{}\">\n\
         <a class=\"unseen\" href=\"#servables\">To the servables</a>\n\
         <header>\n<h1>{SERVER_NAME} <span id=\"readiness\" class=\"state {}\">{}</span></h1>\n\
         <p class=\"soft\"><span>ovms {version}</span> <span title=\"{}\">OpenVINO {}</span> \
         <span>up <span id=\"uptime\">{}</span></span> <span>{}</span></p>\n\
         {}</header>\n<p id=\"notice\" role=\"status\" aria-live=\"polite\"{}>{}</p>\n<main>\n",
        style(),
        state.server.started_ms,
        text(&ask.from(ask.offset)),
        class(readiness),
        readiness.text(),
        text(runtime),
        // What stands behind says which build it is.
        text(runtime.split('-').next().unwrap_or_default()),
        age(state.server.uptime()),
        text(&address.ports()),
        devices(&state.server),
        match notice {
            Some(_) => "",
            None => " hidden",
        },
        text(notice.unwrap_or_default()),
    );
    page += &tiles(&state.totals, state.server.requests_in_flight);
    page += "<section id=\"servables\" tabindex=\"-1\">\n<h2>Servables</h2>\n";
    page += &filter(ask, &state.totals);
    page += "<div id=\"cards\">\n";
    let most = |view: &View| match view.is_drawn() {
        true => MAX_DRAWN,
        false => MAX_OPEN,
    };
    for view in &state.views {
        page += &card::write(view, address, state.views.len() <= most(view));
    }
    page += "</div>\n";
    page += &nothing(state);
    page += &pager(state, ask);
    page += "</section>\n</main>\n";
    page += "<footer class=\"soft\"><p>req/s are those of the last ten seconds, p50 and p99 the \
             latencies that half and 99 % of the answers of the last minute were below, about, in the \
             server, from the request's last byte. The same for programs: \
             <a href=\"/dashboard/state\">/dashboard/state</a>. This page changes nothing; \
             <code>--no_dashboard</code> turns it off.</p></footer>\n";
    page + "<script>" + SCRIPT + "</script>\n</body>\n</html>\n"
}

/// Writes what stands where there are no cards.
fn nothing(state: &State) -> String {
    let hidden = match state.views.is_empty() {
        true => "",
        false => " hidden",
    };
    let text = match state.totals.servables {
        0 => "Nothing is served.",
        _ => "No servable is as asked for.",
    };
    format!("<p id=\"nothing\" class=\"soft\"{hidden}>{text}</p>\n")
}

const fn class(readiness: Readiness) -> &'static str {
    match readiness {
        Readiness::Ready => "ready",
        Readiness::Loading => "loading",
        Readiness::Failing => "failing",
        Readiness::Stopping => "warning",
    }
}

fn devices(server: &Server) -> String {
    if server.devices.is_empty() {
        return String::new();
    }
    let devices = server.devices.iter().map(|device| {
        let full = device.full_name.as_deref().unwrap_or_default();
        format!("<span><b>{}</b> {}</span>", text(&device.name), text(full))
    });
    let devices: Vec<String> = devices.collect();
    format!("<p class=\"soft\">{}</p>\n", devices.join(" "))
}

fn tiles(totals: &Totals, in_flight: usize) -> String {
    let tile = |key: &str, live: &str, value: &str, more: &str| {
        format!(
            "<div class=\"tile\"><dt>{key}</dt><dd><b data-live=\"{live}\">{value}</b>{more}</dd></div>\n"
        )
    };
    let spark = "<svg class=\"spark\" viewBox=\"0 0 120 24\" preserveAspectRatio=\"none\" \
                 aria-hidden=\"true\"><path/></svg>";
    let mut tiles = String::from("<dl id=\"totals\">\n");
    tiles += &tile("Requests/s", "rate", "–", spark);
    tiles += &tile("Failures/s", "fails", "–", "");
    tiles += &tile("p50", "p50", "–", "");
    tiles += &tile("p99", "p99", "–", "");
    tiles += &tile("In flight", "in_flight", &count(in_flight as u64), "");
    tiles += &tile(
        "Live sequences",
        "sequences",
        &count(totals.sequences as u64),
        "",
    );
    tiles + "</dl>\n"
}

/// Writes the form that chooses among servables.
fn filter(ask: &Ask, totals: &Totals) -> String {
    let choices = Condition::ALL.into_iter().map(|condition| {
        let chosen = match ask.condition == Some(condition) {
            true => " selected",
            false => "",
        };
        let of = totals.conditions.count(condition);
        let name = condition.text();
        format!("<option value=\"{name}\"{chosen}>{name} ({of})</option>")
    });
    let limit = match ask.limit {
        USUAL => String::new(),
        limit => format!("<input type=\"hidden\" name=\"limit\" value=\"{limit}\">"),
    };
    format!(
        "<form role=\"search\" action=\"/\" method=\"get\">\
         <label>Name <input type=\"search\" name=\"q\" value=\"{}\" maxlength=\"100\" \
         autocomplete=\"off\" spellcheck=\"false\"></label>\
         <label>State <select name=\"state\"><option value=\"\">all ({})</option>{}</select></label>\
         {limit}<button>Show</button>\
         <button type=\"button\" id=\"all\" hidden>Open all</button></form>\n",
        text(&ask.part),
        totals.servables,
        choices.collect::<String>()
    )
}

/// Writes where in the list this is, and how to go on.
fn pager(state: &State, ask: &Ask) -> String {
    let first = ask.offset;
    let end = first + state.views.len();
    if first == 0 && end >= state.found {
        return String::new();
    }
    let link = |offset: usize, text: &str, rel: &str| {
        let query = self::text(&ask.from(offset));
        format!("<a rel=\"{rel}\" href=\"/{query}\">{text}</a> ")
    };
    let back = match first {
        0 => String::new(),
        _ => link(first.saturating_sub(ask.limit), "← back", "prev"),
    };
    let more = match end < state.found {
        true => link(end, "more →", "next"),
        false => String::new(),
    };
    format!(
        "<nav aria-label=\"pages\">{back}<span class=\"soft\">{} to {end} of {}</span> {more}</nav>\n",
        (first + 1).min(end),
        state.found
    )
}
