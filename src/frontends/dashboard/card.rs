//! The card of a servable.

use std::fmt::Write;

use super::{
    ask::encoded,
    attempt::{self, Address},
    markup::{count, lines, text, took},
    view::{Condition, Kind, Loaded, Runs, Tensor, Version, View},
};
use crate::metrics::Figures;

/// Writes the card of a servable, open or not; one that needs somebody is open anyway.
pub(super) fn write(view: &View, address: &Address, open: bool) -> String {
    let mut card = String::new();
    let name = text(&view.name);
    let condition = view.condition.text();
    let open = match open
        || matches!(
            view.condition,
            Condition::Failed | Condition::Failing | Condition::Warning
        ) {
        true => " open",
        false => "",
    };
    put(
        &mut card,
        format_args!(
            "<details class=\"card {condition}\" data-name=\"{}\" data-revision=\"{}\"{open}>\n\
             <summary>\n<span class=\"who\"><h3>{name}</h3> <span class=\"kind\">{}</span> \
             <span class=\"state {condition}\">{condition}</span></span>\n",
            encoded(&view.name),
            view.revision(),
            kind(view),
        ),
    );
    live(&mut card);
    card += "</summary>\n<div class=\"body\">\n";
    if let Some(failure) = &view.failure {
        put(&mut card, format_args!("{}", self::failure(failure)));
    }
    card += "<div class=\"columns\">\n";
    if view.loaded.is_some() || view.figures().is_any() {
        requests(&mut card, view);
    }
    versions(&mut card, view);
    if let Some(loaded) = &view.loaded {
        tensors(&mut card, "Inputs", &loaded.inputs, loaded.more_inputs);
        tensors(&mut card, "Outputs", &loaded.outputs, loaded.more_outputs);
    }
    card += "</div>\n";
    if view.is_drawn() {
        drawing(&mut card, view);
    }
    attempts(&mut card, view, address);
    card += "</div>\n</details>\n";
    card
}

/// Adds to a text, which takes everything.
fn put(card: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = card.write_fmt(text);
}

fn kind(view: &View) -> &'static str {
    match (view.kind, &view.loaded) {
        (
            Kind::Model,
            Some(Loaded {
                is_stateful: true, ..
            }),
        ) => "stateful model",
        (kind, _) => kind.text(),
    }
}

/// Writes the places of what the script finds out.
fn live(card: &mut String) {
    *card += "<span class=\"live\">\
        <span class=\"figure\"><b data-live=\"rate\">–</b> req/s</span>\
        <span class=\"figure\"><b data-live=\"p50\">–</b> ≈ p50</span>\
        <span class=\"figure\"><b data-live=\"p99\">–</b> ≈ p99</span>\
        <svg class=\"spark\" viewBox=\"0 0 120 24\" preserveAspectRatio=\"none\" \
        aria-hidden=\"true\"><path/></svg></span>\n";
}

fn failure(failure: &str) -> String {
    format!("<p class=\"failure\">{}</p>\n", lines(failure))
}

fn requests(card: &mut String, view: &View) {
    let figures = view.figures();
    let Figures {
        requests,
        streamed,
        failed,
        runs,
        ns,
        latency,
    } = &figures;
    let mean = ns
        .checked_div(*requests)
        .map(std::time::Duration::from_nanos);
    *card += "<section><h4>Since the start</h4>\n<dl>\n";
    let mut row = |key: &str, live: &str, value: String| {
        let live = match live {
            "" => String::new(),
            live => format!(" data-live=\"{live}\""),
        };
        put(
            card,
            format_args!("<div><dt>{key}</dt><dd{live}>{value}</dd></div>\n"),
        );
    };
    row("Requests answered", "requests", count(*requests));
    row("Failed", "failed", count(*failed));
    if view.kind == Kind::Graph {
        row("Answers over streams", "streamed", count(*streamed));
    }
    if view.kind != Kind::Graph && *runs > 0 {
        row("Runs for pipelines and graphs", "runs", count(*runs));
    }
    row("Latency, mean", "mean", took(mean));
    row("Latency, about p50", "all50", took(latency.quantile(0.5)));
    row("Latency, about p99", "all99", took(latency.quantile(0.99)));
    if let Some(live) = view.sequences() {
        row("Live sequences", "sequences", count(live as u64));
    }
    *card += "</dl></section>\n";
}

fn versions(card: &mut String, view: &View) {
    // The head of the card says it already.
    let is_plain = view.kind != Kind::Model && view.condition == Condition::Ready;
    if view.versions.is_empty() || is_plain {
        return;
    }
    let title = match view.kind {
        Kind::Model => "Versions",
        Kind::Pipeline | Kind::Graph => "State",
    };
    put(
        card,
        format_args!("<section class=\"versions\"><h4>{title}</h4>\n<ul>\n"),
    );
    for version in &view.versions {
        self::version(card, view.kind, version);
    }
    *card += "</ul>\n";
    if view.more_versions > 0 {
        put(
            card,
            format_args!("<p class=\"soft\">… and {} older</p>\n", view.more_versions),
        );
    }
    *card += "</section>\n";
}

fn version(card: &mut String, kind: Kind, version: &Version) {
    let is_failing = version.broken.as_ref().is_some_and(|(_, failing)| *failing);
    let (class, state) = match (version.state, &version.failure) {
        ("AVAILABLE", _) if is_failing => ("failing", "failing"),
        ("AVAILABLE", None) => ("ready", "available"),
        ("AVAILABLE", Some(_)) => ("warning", "available as before"),
        (_, Some(_)) => ("failed", "not loaded"),
        ("UNLOADING", None) => ("retired", "unloading"),
        ("END", None) => ("retired", "unloaded"),
        (_, None) => ("loading", "loading"),
    };
    let number = match kind {
        Kind::Model => format!("<b>{}</b> ", version.number),
        Kind::Pipeline | Kind::Graph => String::new(),
    };
    put(
        card,
        format_args!("<li>{number}<span class=\"state {class}\">{state}</span>"),
    );
    if let Some(runs) = &version.runs {
        put(
            card,
            format_args!(" <span class=\"soft\">{}</span>", self::runs(runs)),
        );
    }
    if let Some(failure) = &version.failure {
        *card += &self::failure(failure);
    }
    if let Some((broken, _)) = &version.broken {
        *card += &self::failure(&format!("last failed request: {broken}"));
    }
    *card += "</li>\n";
}

fn runs(runs: &Runs) -> String {
    let Runs {
        device,
        slots,
        streams,
        sequences,
    } = runs;
    let several = |count: u64, one: &str, more: &str| match count {
        1 => format!("1 {one}"),
        _ => format!("{} {more}", self::count(count)),
    };
    let mut all = vec![
        text(device),
        several(*slots as u64, "infer request", "infer requests"),
        several(u64::from(*streams), "stream", "streams"),
    ];
    if let Some(most) = sequences.filter(|most| *most > 0) {
        let most = several(u64::from(most), "sequence", "sequences");
        all.push(format!("at most {most}"));
    }
    all.join(" · ")
}

fn tensors(card: &mut String, title: &str, tensors: &[Tensor], more: usize) {
    put(card, format_args!("<section><h4>{title}</h4>\n"));
    if tensors.is_empty() {
        *card += "<p class=\"soft\">none</p></section>\n";
        return;
    }
    *card += "<div class=\"wide\"><table>\n";
    for tensor in tensors {
        let datatype = tensor.datatype.unwrap_or("any type");
        let layout = match tensor.layout.as_str() {
            "" => String::new(),
            layout => format!(" <span class=\"soft\">{}</span>", text(layout)),
        };
        put(
            card,
            format_args!(
                "<tr><th scope=\"row\">{}</th><td>{datatype}</td><td>{}{layout}</td></tr>\n",
                text(&tensor.name),
                tensor.shape_text()
            ),
        );
    }
    *card += "</table></div>\n";
    if more > 0 {
        put(
            card,
            format_args!("<p class=\"soft\">… and {more} more</p>\n"),
        );
    }
    *card += "</section>\n";
}

/// Writes the place of a drawing, which the script gets when it comes into view.
fn drawing(card: &mut String, view: &View) {
    let name = text(&view.name);
    let kind = view.kind.text();
    let address = format!("/dashboard/drawing?name={}", encoded(&view.name));
    put(
        card,
        format_args!(
            "<section><h4>Drawing</h4>\n<div class=\"picture\" tabindex=\"0\" role=\"region\" \
             aria-label=\"drawing of {name}\" data-drawing=\"{address}\">\
             <noscript><img src=\"{address}\" alt=\"{kind} {name}\" loading=\"lazy\"></noscript>\
             </div></section>\n"
        ),
    );
}

fn attempts(card: &mut String, view: &View, address: &Address) {
    let attempts = attempt::attempts(view, address);
    if attempts.is_empty() {
        return;
    }
    *card += "<section><h4>Try it</h4>\n";
    for attempt in attempts {
        put(
            card,
            format_args!(
                "<div class=\"line\"><pre tabindex=\"0\"><code>{}</code></pre>\
                 <button type=\"button\" class=\"copy\" hidden>Copy<span class=\"unseen\"> the line \
                 with {} for {}</span></button></div>\n",
                text(&attempt.line),
                attempt.with,
                text(&view.name)
            ),
        );
    }
    *card += "</section>\n";
}
