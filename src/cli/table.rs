//! Pure: an aligned table.

use std::fmt::Write as _;

use serde_json::Value;

/// What stands for a figure that is not known.
pub(super) const UNKNOWN: &str = "-";

/// How a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A column: its head, how it stands, and what a row has there.
pub(super) struct Column<R: ?Sized> {
    pub(super) head: &'static str,
    pub(super) align: Align,
    pub(super) cell: fn(&R) -> String,
}

impl<R: ?Sized> Column<R> {
    /// For words.
    pub(super) fn left(head: &'static str, cell: fn(&R) -> String) -> Column<R> {
        Column { head, align: Align::Left, cell }
    }

    /// For numbers.
    pub(super) fn right(head: &'static str, cell: fn(&R) -> String) -> Column<R> {
        Column { head, align: Align::Right, cell }
    }
}

/// A value of JSON in a cell.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => UNKNOWN.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Columns as wide as what is in them, two blanks between, no blanks at the end of a line.
pub(super) fn table<R>(columns: &[Column<R>], rows: &[R]) -> String {
    let heads = columns.iter().map(|column| column.head.to_owned()).collect();
    let cells = |row: &R| columns.iter().map(|column| (column.cell)(row)).collect();
    let lines: Vec<Vec<String>> = std::iter::once(heads).chain(rows.iter().map(cells)).collect();
    let width = |at: usize| {
        lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns.len()).map(|at| width(at).unwrap_or(0)).collect();
    let mut out = String::new();
    for line in &lines {
        let mut text = String::new();
        for ((cell, column), width) in line.iter().zip(columns).zip(&widths) {
            let gap = if text.is_empty() { "" } else { "  " };
            let _ = match column.align {
                Align::Left => write!(text, "{gap}{cell:<width$}"),
                Align::Right => write!(text, "{gap}{cell:>width$}"),
            };
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Column, table};

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let columns = [
            Column::left("TOPIC", |row: &[&str; 3]| row[0].to_owned()),
            Column::right("LAG", |row| row[1].to_owned()),
            Column::left("WHO", |row| row[2].to_owned()),
        ];
        let rows = [["orders-é", "5", "a"], ["t", "12345", ""]];
        let expected = "\
TOPIC       LAG  WHO
orders-é      5  a
t         12345
";
        assert_eq!(table(&columns, &rows), expected);
    }
}
