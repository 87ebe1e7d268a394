//! Contrast of the colours of the pages, as WCAG 2.2 computes it: 4.5 for text (1.4.3), 3 for borders of fields and
//! for lines of charts (1.4.11).

use std::collections::BTreeMap;

const PAGE: &str = include_str!("page.css");
const DIAGRAM: &str = crate::draw::STYLE;

/// Least contrast of text, and of what has to be seen and is no text.
const TEXT: f64 = 4.5;
const GRAPHICS: f64 = 3.0;

type Rgb = [f64; 3];

/// Variables of a style, light and dark.
fn schemes(style: &str) -> [BTreeMap<&str, &str>; 2] {
    let (light, rest) = style
        .split_once("@media (prefers-color-scheme: dark)")
        .unwrap();
    let dark = rest.split_once("}\n}").unwrap().0;
    let variables = |text| declarations(text).collect::<BTreeMap<_, _>>();
    let light = variables(light);
    let mut all = light.clone();
    all.extend(variables(dark));
    [light, all]
}

/// Returns the variables that a text declares.
fn declarations(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = text.split(['{', ';', '}']).map(str::trim);
    parts.filter_map(|part| {
        let (name, value) = part.split_once(':')?;
        Some((name.strip_prefix("--")?, value.trim()))
    })
}

fn rgb(hex: &str) -> Rgb {
    let digits = hex.strip_prefix('#').unwrap();
    let digits: String = match digits.len() {
        3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
        _ => digits.to_owned(),
    };
    [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&digits[at..at + 2], 16).unwrap()) / 255.0)
}

/// Mixes so much of a colour over another, as `color-mix(in srgb, …, transparent)` does.
fn over(colour: Rgb, share: f64, below: Rgb) -> Rgb {
    [0, 1, 2].map(|at| colour[at] * share + below[at] * (1.0 - share))
}

fn luminance(colour: Rgb) -> f64 {
    let [red, green, blue] = colour.map(|part| match part <= 0.04045 {
        true => part / 12.92,
        false => ((part + 0.055) / 1.055).powf(2.4),
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn contrast_is_that_of_the_definition() {
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 0.01, "{found}");
    close(contrast(rgb("#fff"), rgb("#000")), 21.0);
    close(contrast(rgb("#777"), rgb("#fff")), 4.48);
}

#[test]
fn texts_and_lines_of_the_pages_can_be_seen() {
    let mut poor = Vec::new();
    for (scheme, colours) in ["light", "dark"].iter().zip(schemes(PAGE)) {
        let colour = |name: &str| rgb(colours[name]);
        let shade: f64 = colours["shade"].trim_end_matches('%').parse().unwrap();
        let grounds = ["paper", "raised", "sunk"];
        let mut check = |what: String, one: Rgb, other: Rgb, least: f64| {
            let found = contrast(one, other);
            if found < least {
                poor.push(format!("{scheme}: {what} has {found:.2}, needs {least}"));
            }
        };
        for ground in grounds {
            for text in ["ink", "soft", "mark"] {
                let what = format!("{text} on {ground}");
                check(what, colour(text), colour(ground), TEXT);
            }
            for line in ["edge", "mark", "warning"] {
                let what = format!("line {line} on {ground}");
                check(what, colour(line), colour(ground), GRAPHICS);
            }
            // What a state is called, on a tint of its colour.
            for tone in ["ready", "loading", "warning", "failed", "retired"] {
                let tint = over(colour(tone), shade / 100.0, colour(ground));
                check(
                    format!("{tone} on its tint of {ground}"),
                    colour(tone),
                    tint,
                    TEXT,
                );
            }
            // Reasons of failures.
            let tint = over(colour("failed"), 0.08, colour(ground));
            check(format!("a failure on {ground}"), colour("ink"), tint, TEXT);
        }
        for tone in ["warning", "failed"] {
            let tint = over(colour(tone), shade / 100.0, colour("paper"));
            check(format!("a notice of {tone}"), colour("ink"), tint, TEXT);
        }
        check(
            "a button".to_owned(),
            colour("on-action"),
            colour("action"),
            TEXT,
        );
    }
    assert!(poor.is_empty(), "{}", poor.join("\n"));
}

#[test]
fn texts_of_drawings_can_be_read() {
    let mut poor = Vec::new();
    for (scheme, colours) in ["light", "dark"].iter().zip(schemes(DIAGRAM)) {
        let colour = |name: &str| rgb(colours[name]);
        for ground in ["paper", "end", "model", "custom", "error-fill"] {
            for text in ["ink", "soft", "level", "error"] {
                // What is missing has a ground of its own.
                if text == "error" && !["paper", "error-fill"].contains(&ground) {
                    continue;
                }
                let found = contrast(colour(text), colour(ground));
                if found < TEXT {
                    poor.push(format!("{scheme}: {text} on {ground} has {found:.2}"));
                }
            }
        }
    }
    assert!(poor.is_empty(), "{}", poor.join("\n"));
}
