//! Transposed tables for narrow terminals, with cells below each other.

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, presets};

/// Minimum width at which tables are never transposed.
const USUAL: u16 = 80;

/// Returns whether a table with no room for its words gains from transposing. One of two columns would
/// have as many as before.
pub(super) fn helps(table: &Table, width: u16) -> bool {
    width < USUAL && table.header().is_some_and(|it| it.cell_count() > 2) && table.row_count() > 0
}

/// Draws a line for each cell, with its title first, and a blank one between rows.
pub(super) fn draw(table: &Table, width: u16) -> String {
    let mut turned = Table::new();
    turned
        .load_style(presets::UTF8_FULL_CONDENSED)
        .enforce_styling()
        .set_width(width)
        .set_content_arrangement(ContentArrangement::Dynamic);
    let titles = || table.header().into_iter().flat_map(Row::cell_iter);
    for (index, row) in table.row_iter().enumerate() {
        if index > 0 {
            turned.add_row(["", ""]);
        }
        for (title, cell) in titles().zip(row.cell_iter()) {
            // A cell without text belongs to the row above, which shows it.
            if !cell.content().is_empty() {
                turned.add_row([title.clone(), cell.clone()]);
            }
        }
    }
    if let Some(column) = turned.column_mut(0) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    turned.trim_fmt() + "\n"
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::super::{Look, Table};

    fn example(width: u16) -> String {
        let titles = ["output", "datatype", "min", "max", "values"];
        let mut table = Table::new().left(titles);
        for cells in [
            [
                "scores",
                "FP32",
                "1.29361e-21",
                "0.96623",
                "0.000686192, 1.02147e-7, 1.37495e-5, …",
            ],
            ["labels", "BYTES", "-", "-", "\"none\""],
        ] {
            table.row(cells.map(str::to_owned));
        }
        table.table.set_width(width);
        table.draw(Look::Boxed)
    }

    #[test]
    fn a_row_is_a_line_for_each_cell_where_words_have_no_room() {
        insta::assert_snapshot!(example(50), @r#"
        ┌──────────┬──────────────────────────┐
        │ output   ┆ scores                   │
        │ datatype ┆ FP32                     │
        │ min      ┆ 1.29361e-21              │
        │ max      ┆ 0.96623                  │
        │ values   ┆ 0.000686192, 1.02147e-7, │
        │          ┆ 1.37495e-5, …            │
        │          ┆                          │
        │ output   ┆ labels                   │
        │ datatype ┆ BYTES                    │
        │ min      ┆ -                        │
        │ max      ┆ -                        │
        │ values   ┆ "none"                   │
        └──────────┴──────────────────────────┘
        "#);
    }

    #[test]
    fn tables_are_as_wide_as_the_terminal_at_most_and_turned_in_narrow_ones_only() {
        for width in 40..130 {
            let drawn = example(width);
            let longest = drawn.lines().map(UnicodeWidthStr::width).max();
            assert!(longest <= Some(usize::from(width)), "{width}\n{drawn}");
            assert!(drawn.contains(" 1.29361e-21 "), "{width}\n{drawn}");
            let is_turned = drawn.matches("datatype").count() == 2;
            assert_eq!(is_turned, width < 60, "{width}\n{drawn}");
        }
    }
}
