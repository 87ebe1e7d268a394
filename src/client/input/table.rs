//! Tables of numbers as text: CSV files, with any of the usual separators.

use std::borrow::Cow;

use super::{
    ValueProblem, error,
    target::{Target, push_word},
};
use crate::tensor::{DataType, Dim, PartialShape, Tensor, values::Packer};

/// First bytes of a text in UTF-16, either byte of a character first.
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// Words that stand for a value that is not there, in lower case; `NaN` is a number.
const MISSING: [&str; 9] = ["na", "n/a", "#n/a", "<na>", "null", "none", "nil", "-", "?"];

/// Character between the cells of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    Comma,
    Semicolon,
    Tab,
}

impl Separator {
    /// Finds the separator by a line.
    fn of(line: &str) -> Self {
        let has = |separator: Self| separator.parts(line).len() > 1;
        if has(Self::Semicolon) {
            return Self::Semicolon;
        }
        // Commas are those of decimals where a tab stands within what they part.
        let is_parted = |cell: &&str| cell.trim().contains('\t');
        let has_tab = match has(Self::Comma) {
            true => Self::Comma.parts(line).iter().any(is_parted),
            false => has(Self::Tab),
        };
        if has_tab { Self::Tab } else { Self::Comma }
    }

    const fn character(self) -> char {
        match self {
            Self::Comma => ',',
            Self::Semicolon => ';',
            Self::Tab => '\t',
        }
    }

    /// Splits a line, but not within quotes.
    fn parts(self, line: &str) -> Vec<&str> {
        let mut is_quoted = false;
        let is_end = |c: char| {
            is_quoted ^= c == '"';
            c == self.character() && !is_quoted
        };
        line.split(is_end).collect()
    }
}

/// Text of a cell, without blanks and quotes around it.
fn bare(cell: &str) -> Cow<'_, str> {
    let cell = cell.trim();
    let quoted = cell.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    match quoted {
        Some(text) if text.contains("\"\"") => text.replace("\"\"", "\"").into(),
        Some(text) => text.trim().into(),
        None => cell.into(),
    }
}

/// Returns whether a word is a number or a truth value.
fn is_value(word: &str) -> bool {
    word.parse::<f64>().is_ok() || word.to_ascii_lowercase().parse::<bool>().is_ok()
}

fn is_missing(word: &str) -> bool {
    MISSING.contains(&word.to_ascii_lowercase().as_str())
}

/// Returns whether the cells of a line are names of columns; `next` are those of the next line. Some names may be
/// whole numbers, as years are, if there are others above numbers.
fn are_names(cells: &[Cow<'_, str>], next: &[Cow<'_, str>]) -> bool {
    let is_name = |cell: &str| {
        let is_word = |c: char| c.is_alphabetic() || "#_".contains(c);
        cell.starts_with(is_word) && !is_value(cell) && !is_missing(cell)
    };
    let is_like_names = cells
        .iter()
        .all(|cell| is_name(cell) || cell.is_empty() || cell.parse::<u64>().is_ok());
    let mut numbers = cells.iter().filter(|cell| is_value(cell));
    let is_above_number = |(cell, below): (&Cow<'_, str>, &Cow<'_, str>)| {
        is_name(cell) && (is_value(below) || is_missing(below) || below.is_empty())
    };
    is_like_names
        && cells.iter().any(|cell| is_name(cell))
        && (numbers.next().is_none() || cells.iter().zip(next).any(is_above_number))
}

/// Returns whether the cells of a first line are a header over an index, which has no name there.
fn is_over_index(cells: &[Cow<'_, str>]) -> bool {
    let Some(([first], names)) = cells.split_first_chunk::<1>() else {
        return false;
    };
    let is_counted = |(place, name): (usize, &Cow<'_, str>)| name.parse() == Ok(place);
    // As what reads one and writes it again names it.
    (first.is_empty() || *first == "Unnamed: 0")
        && !names.is_empty()
        && (are_names(names, &[]) || names.iter().enumerate().all(is_counted))
}

/// Returns whether the cells of a first line are names over a line of as many cells, and none of them is a number.
fn is_header(cells: &[Cow<'_, str>], next: &[Cow<'_, str>]) -> bool {
    let has_number = cells.iter().any(|cell| is_value(cell));
    !has_number && next.len() == cells.len() && are_names(cells, next)
}

/// Returns whether the cells of a first line are the numbers from 0 on, as pandas names columns that have no names.
fn is_counted(cells: &[Cow<'_, str>]) -> bool {
    let is_place = |(place, cell): (usize, &Cow<'_, str>)| *cell == place.to_string();
    cells.len() > 1 && cells.iter().enumerate().all(is_place)
}

/// Returns whether a number is written with a point or an exponent, as those of floats are.
fn is_fraction(cell: &str) -> bool {
    is_value(cell) && cell.contains(['.', 'e', 'E'])
}

/// First line that is not, or may not be, one of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FirstLine {
    /// Names of columns, left out; this is the first that is not empty.
    Names(String),
    /// The numbers from 0 on above whole numbers, sent as a row.
    Counted,
}

/// Values of one column, for the input of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedColumn {
    /// The name.
    pub(super) name: String,
    /// The cells without quotes.
    pub(super) cells: Vec<String>,
    /// The same as a table of one column, whose lines have the numbers that they have in the file.
    pub(super) table: String,
}

/// Returns the columns of a table below the names of a first line, if some are those of inputs.
///
/// # Errors
///
/// Fails if a line has more or fewer cells than the first.
pub(super) fn columns(
    text: &[u8],
    is_input: impl Fn(&str) -> bool,
) -> Result<Option<Vec<NamedColumn>>, ValueProblem> {
    let text = String::from_utf8_lossy(text);
    let lines = text.trim_start_matches('\u{feff}').lines().zip(1_usize..);
    let mut lines = lines.filter(|(line, _)| !line.trim().is_empty());
    let Some((first, number)) = lines.next() else {
        return Ok(None);
    };
    let separator = Separator::of(first);
    let names: Vec<_> = separator.parts(first).into_iter().map(bare).collect();
    if !names.iter().any(|name| is_input(name)) {
        return Ok(None);
    }
    let column = |name: Cow<'_, str>| NamedColumn {
        name: name.into_owned(),
        cells: Vec::new(),
        table: String::new(),
    };
    let mut columns: Vec<_> = names.into_iter().map(column).collect();
    let mut before = number;
    // Blank lines are passed over, and counted.
    let mut blank = number;
    for (line, number) in lines {
        let cells = separator.parts(line);
        if cells.len() != columns.len() {
            return Err(of_other_length(number, cells.len(), columns.len()));
        }
        blank += number - before - 1;
        for (column, cell) in columns.iter_mut().zip(cells) {
            column.push(cell, blank);
        }
        (before, blank) = (number, 0);
    }
    Ok(Some(columns))
}

impl NamedColumn {
    /// Adds a cell below so many blank lines.
    fn push(&mut self, cell: &str, blank: usize) {
        let cell = cell.trim();
        self.cells.push(bare(cell).into_owned());
        self.table.extend(std::iter::repeat_n('\n', blank));
        // In quotes an empty cell is no blank line, and a comma within it parts nothing.
        match cell.starts_with('"') {
            true => self.table.push_str(cell),
            false => self.table.extend(["\"", cell, "\""]),
        }
        self.table.push('\n');
    }
}

/// Makes the error of a line that has more or fewer cells than the first.
fn of_other_length(number: usize, found: usize, expected: usize) -> ValueProblem {
    let found = error::values(found);
    ValueProblem::Misfit(format!(
        "line {number} has {found}, the first one {expected}"
    ))
}

/// Returns whether a column of so many lines is as many rows of an input, and not the elements of one: both of its lengths
/// are open.
pub(super) fn takes_column(shape: &PartialShape, lines: usize) -> bool {
    let is_open = |dim: &Dim| !matches!(dim, Dim::Fixed(_));
    shape.0.len() == 2 && shape.0.iter().all(is_open) && shape.allows(&[lines, 1])
}

/// Returns what a cell is that is no number, and what to do.
fn refusal(cell: &str, separator: Separator, dtype: DataType) -> (String, String) {
    let expected = format!("expected a value of {dtype}");
    let number = match dtype.is_float() {
        true => "write a number, or NaN, into each cell",
        false => "write a number into each cell",
    };
    if cell.is_empty() {
        return (
            format!("found an empty cell, {expected}"),
            number.to_owned(),
        );
    }
    let found = format!("found `{cell}`, {expected}");
    if is_missing(cell) {
        let found = format!("found `{cell}`, which stands for no value, {expected}");
        return (found, number.to_owned());
    }
    if cell.starts_with('"') {
        return (found, "its quote is not closed".to_owned());
    }
    let is_decimal = cell.replacen(',', ".", 1).parse::<f64>().is_ok();
    if cell.contains(',') && is_decimal {
        let next = match separator {
            Separator::Comma => "decimals have a point, and commas separate the cells",
            _ => "decimals have a point: `tr , . < FILE.csv > rows.csv` writes it",
        };
        return (found, next.to_owned());
    }
    let mut words = cell.split(|c: char| c.is_whitespace() || c == '|');
    let is_row = words.by_ref().filter(|it| !it.is_empty()).all(is_value);
    if is_row && separator == Separator::Comma {
        let next = match cell.contains('|') {
            true => {
                "commas, semicolons, or tabs separate the cells: `tr '|' , < FILE.csv > rows.csv`"
            }
            false => {
                "commas, semicolons, or tabs separate the cells; blanks do in a file of a name that ends in .txt"
            }
        };
        return (found, next.to_owned());
    }
    (found, "only numbers can be sent".to_owned())
}

impl Target<'_> {
    /// Reads lines of numbers with a separator between them, each as long as the first. A line of names above them is left
    /// out, which is put into `first`.
    pub(super) fn rows(
        &self,
        text: &[u8],
        dtype: DataType,
        first: &mut Option<FirstLine>,
    ) -> Result<Tensor, ValueProblem> {
        if UTF_16.iter().any(|mark| text.starts_with(mark)) {
            return Err(ValueProblem::Misfit(
                "found a text in UTF-16, expected UTF-8: `iconv -f UTF-16 -t UTF-8 FILE.csv > rows.csv`".to_owned(),
            ));
        }
        let text = String::from_utf8_lossy(text);
        let text = text.trim_start_matches('\u{feff}');
        let mut packer = Packer::new(dtype, text.len() / 8);
        let lines = text.lines().zip(1_usize..);
        let mut lines = lines.filter(|(line, _)| !line.trim().is_empty()).peekable();
        let separator = lines.peek().map(|(line, _)| Separator::of(line));
        let separator = separator.unwrap_or(Separator::Comma);
        let cells = |line| -> Vec<Cow<'_, str>> {
            let parts = separator.parts(line);
            parts.into_iter().map(bare).collect()
        };
        let (mut rows, mut columns) = (0, None);
        while let Some((line, number)) = lines.next() {
            let row = cells(line);
            let at = |place: usize| match row.len() {
                1 => format!("line {number}"),
                _ => format!("line {number}, column {}", place + 1),
            };
            if rows == 0 && is_over_index(&row) {
                return Err(ValueProblem::Misfit(format!(
                    "line {number}: found names of columns over an index, as pandas writes it; \
                     `frame.to_csv(\"rows.csv\", index=False, header=False)` writes the numbers alone"
                )));
            }
            if rows == 0
                && first.is_none()
                && let Some((next, _)) = lines.peek()
            {
                let next = cells(next);
                let is_counted = is_counted(&row) && next.len() == row.len();
                if is_header(&row, &next) || (is_counted && next.iter().any(|it| is_fraction(it))) {
                    let name = row.iter().find(|it| !it.is_empty());
                    *first = name.map(|name| FirstLine::Names(name.to_string()));
                    self.check_width(&row)?;
                    continue;
                }
                if is_counted {
                    *first = Some(FirstLine::Counted);
                }
            }
            for (place, cell) in row.iter().enumerate() {
                let Err(problem) = push_word(&mut packer, cell) else {
                    continue;
                };
                let text = match (rows, lines.peek()) {
                    _ if is_value(cell) => format!("{}: {problem}", at(place)),
                    (0, next) if are_names(&row, &next.map_or(vec![], |(line, _)| cells(line))) => {
                        let name = row.iter().find(|it| !is_value(it)).unwrap_or(cell);
                        format!(
                            "line {number}: found `{name}`, expected a value of {dtype}; a line with the names of columns \
                             has to go: `tail -n +{} FILE.csv > rows.csv`",
                            number + 1
                        )
                    }
                    _ => {
                        let (found, next) = refusal(cell, separator, dtype);
                        format!("{}: {found}; {next}", at(place))
                    }
                };
                return Err(ValueProblem::Misfit(text));
            }
            let expected = *columns.get_or_insert(row.len());
            if row.len() != expected {
                return Err(of_other_length(number, row.len(), expected));
            }
            rows += 1;
        }
        let Some(columns) = columns else {
            return Err(ValueProblem::Misfit(
                "found no lines, expected rows of numbers".to_owned(),
            ));
        };
        let wanted = self.wanted();
        let rank = wanted.as_ref().map(|shape| shape.0.len());
        let is_of_rows = wanted.is_some_and(|shape| takes_column(&shape, rows));
        let found = match (columns, rank) {
            (1, _) if is_of_rows => vec![rows, 1],
            // A column, or what the model takes in a row.
            (1, _) | (_, Some(0 | 1)) => vec![packer.count()],
            _ => vec![rows, columns],
        };
        self.finish(dtype, &found, packer.finish())
    }

    /// Refuses names of more columns, or fewer, than a row of the model has, where it takes any number of rows.
    fn check_width(&self, names: &[Cow<'_, str>]) -> Result<(), ValueProblem> {
        let wanted = self.wanted().filter(|_| self.shape.is_none());
        let Some([Dim::Any, Dim::Fixed(width)]) = wanted.as_ref().map(|shape| &shape.0[..]) else {
            return Ok(());
        };
        let found = names.len();
        if found == *width || found == 1 || *width == 1 {
            return Ok(());
        }
        let names = names.iter().map(|name| format!("`{name}`"));
        let names = names.collect::<Vec<_>>().join(", ");
        let next = match found > *width {
            true => format!(
                "; write a file of those that are for it, as `cut -d , -f 1-{width} FILE.csv > rows.csv` does"
            ),
            false => String::new(),
        };
        Err(ValueProblem::Misfit(format!(
            "found {found} columns, {names}, expected {width}{next}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::{FirstLine, Target, columns};
    use crate::{
        client::message::TensorMetadata,
        tensor::{DataType, Dim, PartialShape, ShapeText, values::values},
    };

    /// Reads a table for a model of rows of any length.
    fn read_as(dtype: DataType, text: &[u8]) -> Result<(String, Vec<f64>), String> {
        let model = TensorMetadata::new("x".to_owned(), dtype.kserve().to_owned(), &[-1, -1]);
        let target = Target {
            model: Some(&model),
            dtype: None,
            shape: None,
            is_whole: false,
        };
        let tensor = target
            .rows(text, dtype, &mut None)
            .map_err(|error| error.to_string())?;
        let numbers = values(&tensor).filter_map(|it| it.as_f64()).collect();
        Ok((ShapeText(tensor.shape()).to_string(), numbers))
    }

    fn read(text: &str) -> Result<(String, Vec<f64>), String> {
        read_as(DataType::F32, text.as_bytes())
    }

    #[test]
    fn every_usual_separator_and_quotes_are_read() {
        let four = Ok(("(2,2)".to_owned(), vec![1.5, 2.0, 3.0, -4.0]));
        for text in [
            "1.5,2\n3,-4\n",
            "\u{feff}1.5, 2\r\n\r\n 3,\t-4\r\n",
            "1.5;2\n3;-4",
            "1.5\t2\n3\t-4\n",
            "\"1.5\",\"2\"\n3,\" -4 \"\n",
            "\"1.5\";2\n3;-4\n",
        ] {
            assert_eq!(read(text), four, "{text:?}");
        }
        let (_, numbers) = read("NaN,inf\n").unwrap();
        assert!(numbers[0].is_nan() && numbers[1].is_infinite());
        assert_eq!(read("1\n2\n"), Ok(("(2,1)".to_owned(), vec![1.0, 2.0])));
    }

    #[test]
    fn a_column_is_as_many_rows_where_both_lengths_are_open() {
        use Dim::{Any, Fixed, Range};
        for (dims, expected) in [
            (&[Any, Any][..], &[3, 1][..]),
            (&[Range(1, 4), Any], &[3, 1]),
            // Rows that it does not take, or none of one number.
            (&[Range(1, 2), Any], &[1, 3]),
            (&[Any, Range(2, 4)], &[1, 3]),
            (&[Any, Fixed(1)], &[3, 1]),
            (&[Any, Fixed(3)], &[1, 3]),
            (&[Fixed(1), Any], &[1, 3]),
            (&[Fixed(1), Fixed(3)], &[1, 3]),
            (&[Any], &[3]),
            (&[Any, Any, Any], &[1, 1, 3]),
        ] {
            let model = TensorMetadata {
                name: "x".to_owned(),
                datatype: "FP32".to_owned(),
                shape: PartialShape(dims.to_vec()),
            };
            let target = Target {
                model: Some(&model),
                dtype: None,
                shape: None,
                is_whole: false,
            };
            let tensor = target.rows(b"1\n2\n3\n", DataType::F32, &mut None);
            assert_eq!(tensor.unwrap().shape(), expected, "{dims:?}");
        }
    }

    #[test]
    fn a_line_of_names_above_numbers_is_left_out() {
        let row = Ok(("(1,2)".to_owned(), vec![1.0, 2.0]));
        for table in [
            "age,height\n1,2\n",
            "\"age\";\"height, cm\"\n1;2\n",
            "# a\tb\n1\t2\n",
        ] {
            assert_eq!(read(table), row, "{table:?}");
        }
        // There is one such line.
        let two = read("age,height\nyears,cm\n1,2\n").unwrap_err();
        assert!(two.starts_with("line 2: found `years`"), "{two}");
        let more = read("age,height\n1,2,3\n").unwrap_err();
        assert!(more.starts_with("line 1: found `age`"), "{more}");
    }

    #[test]
    fn numbers_from_0_on_are_names_above_fractions() {
        let target = |model| Target {
            model: Some(model),
            dtype: None,
            shape: None,
            is_whole: false,
        };
        let model = TensorMetadata::new("x".to_owned(), "FP32".to_owned(), &[-1, 2]);
        let read = |text: &str| {
            let mut first = None;
            let tensor = target(&model).rows(text.as_bytes(), DataType::F32, &mut first);
            (
                tensor
                    .map(|it| it.shape().to_vec())
                    .map_err(|error| error.to_string()),
                first,
            )
        };
        let names = Some(FirstLine::Names("0".to_owned()));
        assert_eq!(read("0,1\n5.1,3\n"), (Ok(vec![1, 2]), names.clone()));
        assert_eq!(read("0,1\n5,3e2\n4,3\n"), (Ok(vec![2, 2]), names));
        // Nothing shows whether these are names.
        assert_eq!(
            read("0,1\n5,3\n"),
            (Ok(vec![2, 2]), Some(FirstLine::Counted))
        );
        for text in ["0,1\n", "0,2\n0.5,3\n", "0.0,1.0\n0.5,3\n"] {
            assert_eq!(read(text).1, None, "{text:?}");
        }
        let wide = read("age,height,label\n1,2,0\n").0.unwrap_err();
        assert_eq!(
            wide,
            "found 3 columns, `age`, `height`, `label`, expected 2; write a file of those that are for it, as \
             `cut -d , -f 1-2 FILE.csv > rows.csv` does"
        );
    }

    #[test]
    fn columns_keep_the_lines_of_their_cells() {
        let all = |_: &str| true;
        let text = b"\n;age;\"city; or town\"\n0;1,5;Rome\n\n1;;\"Oslo\"\n";
        let found = columns(text, |name| name == "age").unwrap().unwrap();
        let names: Vec<_> = found.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["", "age", "city; or town"]);
        assert_eq!(found[1].table, "\n\n\"1,5\"\n\n\"\"\n");
        assert_eq!(found[2].cells, ["Rome", "Oslo"]);
        let found = columns(b"age,x\n1,2\n,3\n", all).unwrap().unwrap();
        let error = read(&found[0].table).unwrap_err();
        assert!(error.starts_with("line 3: found an empty cell"), "{error}");
        let error = columns(b"a,b\n1,2\n1\n", all).unwrap_err();
        assert_eq!(error.to_string(), "line 3 has 1 value, the first one 2");
        assert_eq!(columns(b"", all).unwrap(), None);
        assert_eq!(columns(b"a,b\n1\n", |_| false).unwrap(), None);
    }

    #[test]
    fn whole_numbers_may_have_a_point() {
        let read = |text: &str| read_as(DataType::U8, text.as_bytes());
        let row = ("(1,3)".to_owned(), vec![3.0, 0.0, 200.0]);
        assert_eq!(read("3.0,-0.0,2e2\n"), Ok(row));
        for text in ["3.5\n", "-1.0\n", "256.0\n", "1e30\n", "NaN\n"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_columns_are_reported_where_they_are_names() {
        let names = |name: &str| {
            format!(
                "line 1: found `{name}`, expected a value of FP32; a line with the names of columns has to go: `tail -n \
                 +2 FILE.csv > rows.csv`"
            )
        };
        let index = "line 1: found names of columns over an index, as pandas writes it; `frame.to_csv(\"rows.csv\", \
                     index=False, header=False)` writes the numbers alone";
        let text = |column: usize, name: &str| {
            format!(
                "line 1, column {column}: found `{name}`, expected a value of FP32; only numbers can be sent"
            )
        };
        for (table, expected) in [
            ("2019,mean\n1,2\n", names("mean")),
            ("age,height\n", names("age")),
            (",a,b\n0,1,2\n", index.to_owned()),
            ("\"\",0,1\n0,1,2\n", index.to_owned()),
            ("Unnamed: 0,a\n0,1\n", index.to_owned()),
            // A column of texts, and a typing error.
            ("cat,1\ndog,2\n", text(1, "cat")),
            ("1,2.O\n1,2\n", text(2, "2.O")),
        ] {
            assert_eq!(read(table).unwrap_err(), expected, "{table:?}");
        }
        let (found, next) = (
            "found an empty cell, expected a value of FP32",
            "write a number, or NaN, into each cell",
        );
        assert_eq!(
            read(",1.5\n2,3\n").unwrap_err(),
            format!("line 1, column 1: {found}; {next}")
        );
    }

    #[test]
    fn cells_that_are_no_numbers_are_reported_with_their_place() {
        let fill = "write a number, or NaN, into each cell";
        for (table, expected) in [
            ("1,2\n\n3,x\n", "line 3, column 2: found `x`, expected a value of FP32; only numbers can be sent".to_owned()),
            ("1,2\n3,\n", format!("line 2, column 2: found an empty cell, expected a value of FP32; {fill}")),
            (
                "NA,2\n3,4\n",
                format!("line 1, column 1: found `NA`, which stands for no value, expected a value of FP32; {fill}"),
            ),
            (
                "1\nnull\n",
                format!("line 2: found `null`, which stands for no value, expected a value of FP32; {fill}"),
            ),
            (
                "1,5;2,5\n",
                "line 1, column 1: found `1,5`, expected a value of FP32; decimals have a point: `tr , . < FILE.csv > rows.csv` \
                 writes it"
                    .to_owned(),
            ),
            (
                "1,\"2,5\"\n",
                "line 1, column 2: found `2,5`, expected a value of FP32; decimals have a point, and commas separate the cells"
                    .to_owned(),
            ),
            (
                "1|2\n",
                "line 1: found `1|2`, expected a value of FP32; commas, semicolons, or tabs separate the cells: `tr '|' , < \
                 FILE.csv > rows.csv`"
                    .to_owned(),
            ),
            (
                "1 2\n",
                "line 1: found `1 2`, expected a value of FP32; commas, semicolons, or tabs separate the cells; blanks do in a \
                 file of a name that ends in .txt"
                    .to_owned(),
            ),
            (
                "\"1,2\n3,4\n",
                "line 1: found `\"1,2`, expected a value of FP32; its quote is not closed".to_owned(),
            ),
            ("\n", "found no lines, expected rows of numbers".to_owned()),
            ("1;2\n3\n", "line 2 has 1 value, the first one 2".to_owned()),
        ] {
            assert_eq!(read(table).unwrap_err(), expected, "{table:?}");
        }
        let whole = |text: &str| read_as(DataType::I16, text.as_bytes()).unwrap_err();
        assert_eq!(
            whole("1,\n"),
            "line 1, column 2: found an empty cell, expected a value of INT16; write a number into each cell"
        );
        assert!(
            whole("1,40000\n").starts_with("line 1, column 2: "),
            "{}",
            whole("1,40000\n")
        );
        let flags = read_as(DataType::Bool, b"True,FALSE\n");
        assert!(flags.is_ok(), "{flags:?}");
        let error = read("True,False\n").unwrap_err();
        assert!(error.starts_with("line 1, column 1: "), "{error}");
        let error = read_as(DataType::F32, b"\xff\xfe1\x00,\x002\x00").unwrap_err();
        assert!(error.starts_with("found a text in UTF-16"), "{error}");
    }
}
