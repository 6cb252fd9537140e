//! Pure: an aligned table.

use std::fmt::Write as _;

/// How a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// Columns as wide as what is in them, two blanks between, no blanks at the end of a line.
pub(super) fn table(columns: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let heads: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&heads).chain(rows).collect();
    let width = |at: usize| {
        lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns.len()).map(|at| width(at).unwrap_or(0)).collect();
    let mut out = String::new();
    for line in lines {
        let mut text = String::new();
        for ((cell, (_, align)), width) in line.iter().zip(columns).zip(&widths) {
            let gap = if text.is_empty() { "" } else { "  " };
            let _ = match align {
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
    use super::{Align, table};

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let columns = [("TOPIC", Align::Left), ("LAG", Align::Right), ("WHO", Align::Left)];
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["orders-é", "5", "a"]), row(["t", "12345", ""])];
        let expected = "\
TOPIC       LAG  WHO
orders-é      5  a
t         12345
";
        assert_eq!(table(&columns, &rows), expected);
    }
}
