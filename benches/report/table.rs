//! Rows as Markdown and as JSON.

use serde_json::{Value, json};

use super::{
    catalog::{CELLS, Part},
    row::{Row, Side, Spec, Verdict},
    stats::{Summary, median},
};

/// Formats the rows of a part as a table, without a trailing line break.
pub(crate) fn markdown(part: &Part, rows: &[Row]) -> String {
    let rows: Vec<(&Spec, &Row)> = part.rows.iter().zip(rows).collect();
    let mut lines = if part.name == CELLS {
        cells(&rows)
    } else {
        figures(&rows)
    };
    let busy = rows.iter().filter(|(spec, row)| row.is_busy(spec));
    let most = busy.clone().map(|(_, row)| row.others).fold(0.0, f64::max);
    if busy.count() > 0 {
        lines.push(String::new());
        lines.push(format!(
            "The machine was busy: others took up to {:.0} % of it, so there are neither ratios nor \
             verdicts in the rows that say so.",
            most * 100.0
        ));
    }
    lines.join("\n")
}

fn figures(rows: &[(&Spec, &Row)]) -> Vec<String> {
    let mut lines = vec![
        "| row | figure | wanted | measured | of | pairs | |".to_owned(),
        "|---|---|---|---|---|--:|---|".to_owned(),
    ];
    for (spec, row) in rows {
        let wanted = spec.wanted.map_or(String::new(), |bound| {
            let (sign, value) = bound.sign();
            match spec.unit.number(value).as_str() {
                "yes" => "yes".to_owned(),
                _ => format!("{sign} {value}{}", spec.unit.suffix()),
            }
        });
        let measured = if row.has_value(spec) {
            spread(spec, &row.summary())
        } else {
            "—".to_owned()
        };
        let mut of: Vec<String> = row.sides.iter().map(side).collect();
        of.extend((!row.note.is_empty()).then(|| row.note.clone()));
        let verdict = match row.verdict(spec) {
            Verdict::Met => "met",
            Verdict::Missed => "**missed**",
            Verdict::Open => "",
            Verdict::Busy => "busy",
        };
        lines.push(format!(
            "| `{}` | {} | {wanted} | {measured} | {} | {} | {verdict} |",
            spec.id,
            spec.text,
            of.join(", "),
            row.values.len()
        ));
    }
    lines
}

/// Formats a median with its quartiles.
fn spread(spec: &Spec, summary: &Summary) -> String {
    let [low, high] = summary.quartiles.map(|value| spec.unit.number(value));
    let text = spec.unit.text(summary.median);
    if summary.count > 1 {
        format!("{text} ({low} to {high})")
    } else {
        text
    }
}

fn side(side: &Side) -> String {
    format!("{} {}", side.name, side.unit.text(median(&side.values)))
}

/// Formats a table of absolute figures, which are the sides of each row.
fn cells(rows: &[(&Spec, &Row)]) -> Vec<String> {
    let names = rows.first().map_or(&[][..], |(_, row)| &row.sides);
    let titles: String = names
        .iter()
        .map(|side| format!(" {}{} |", side.name, side.unit.suffix()))
        .collect();
    let mut lines = vec![
        format!("| row | measured | requests/s |{titles} |"),
        format!("|---|---|--:|{}---|", "--:|".repeat(names.len())),
    ];
    for (spec, row) in rows {
        let values: String = row
            .sides
            .iter()
            .map(|side| format!(" {} |", side.unit.number(median(&side.values))))
            .collect();
        lines.push(format!(
            "| `{}` | {} | {} |{values} {} |",
            spec.id,
            spec.text,
            spec.unit.number(row.summary().median),
            if row.is_busy(spec) { "busy" } else { "" },
        ));
    }
    lines
}

/// Returns the rows of a part as JSON.
pub(crate) fn json(part: &Part, rows: &[Row]) -> Value {
    let rows = part.rows.iter().zip(rows);
    rows.map(|(spec, row)| row_json(spec, row)).collect()
}

fn row_json(spec: &Spec, row: &Row) -> Value {
    let summary = row.summary();
    let sides: Vec<Value> = row
        .sides
        .iter()
        .map(|side| {
            json!({
                "name": side.name,
                "unit": side.unit,
                "median": median(&side.values),
                "values": side.values,
            })
        })
        .collect();
    let wanted = spec.wanted.map(|bound| {
        let (sign, value) = bound.sign();
        json!({"bound": sign, "value": value})
    });
    let verdict = match row.verdict(spec) {
        Verdict::Met => Some("met"),
        Verdict::Missed => Some("missed"),
        Verdict::Open | Verdict::Busy => None,
    };
    let mut json = json!({
        "id": spec.id,
        "text": spec.text,
        "unit": spec.unit,
        "wanted": wanted,
        "pairs": row.values.len(),
        "of": sides,
        "note": row.note,
        "others": row.others,
        "busy": row.is_busy(spec),
        "verdict": verdict,
    });
    // Nobody is to compute from a comparison that says nothing.
    if row.has_value(spec) {
        json["median"] = summary.median.into();
        json["quartiles"] = summary.quartiles.to_vec().into();
        json["values"] = row.values.clone().into();
    }
    json
}
