//! Results as Markdown tables, in a file of their own and between the marks of a document.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::picture;
use crate::results::{Results, Row, median, spread};

/// The document's marks.
const BEGIN: &str = "<!-- results: made by bench-vs-kafka -->";
const END: &str = "<!-- end of results -->";
const BEGIN_THREE: &str = "<!-- results of three brokers: made by bench-vs-kafka -->";
const END_THREE: &str = "<!-- end of results of three brokers -->";

/// Writes `table.md` and the pictures.
pub fn write(results: &Results, dir: &Path) -> Result<(), String> {
    let write = |name: String, text: String| {
        fs::write(dir.join(&name), text).map_err(|error| format!("{name}: {error}"))
    };
    write("table.md".to_owned(), markdown(results))?;
    for group in groups(results) {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.key.group == group).collect();
        write(format!("{}.svg", file_name(&group)), picture::bars(&group, &rows))?;
    }
    Ok(())
}

/// Replaces what is between the document's marks.
pub fn put_into(results: &Results, document: &Path, three: bool) -> Result<(), String> {
    let (begin_mark, end_mark) = if three { (BEGIN_THREE, END_THREE) } else { (BEGIN, END) };
    let name = document.display();
    let text = fs::read_to_string(document).map_err(|error| format!("{name}: {error}"))?;
    let begin = text.find(begin_mark).ok_or(format!("{name} has no line {begin_mark}"))?;
    let end = text.find(end_mark).ok_or(format!("{name} has no line {end_mark}"))?;
    let new =
        format!("{}\n\n{}{}", &text[..begin + begin_mark.len()], markdown(results), &text[end..]);
    fs::write(document, new).map_err(|error| format!("{name}: {error}"))
}

/// The tables' headings, in the order in which they came.
fn groups(results: &Results) -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    for row in &results.rows {
        if !groups.contains(&row.key.group) {
            groups.push(row.key.group.clone());
        }
    }
    groups
}

fn file_name(group: &str) -> String {
    group.replace(' ', "-")
}

/// All tables.
pub fn markdown(results: &Results) -> String {
    let mut text = String::new();
    let about = &results.about;
    let _ = writeln!(
        text,
        "{} rounds, {} s of each load; {} ({} cores), Linux {}.\n",
        about["rounds"],
        about["seconds_of_each_load"],
        about["processor"].as_str().unwrap_or_default(),
        about["cores"],
        about["kernel"].as_str().unwrap_or_default(),
    );
    for group in groups(results) {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.key.group == group).collect();
        let has_limit = rows.iter().any(|row| !row.limit.is_empty());
        let _ = writeln!(text, "### {}{}\n", group[..1].to_uppercase(), &group[1..]);
        let _ = write!(text, "| | | Highwater | Kafka | times better |");
        let _ = writeln!(text, "{}", if has_limit { " the limit |" } else { "" });
        let _ = writeln!(text, "|-|-|-:|-:|-:|{}", if has_limit { "-:|" } else { "" });
        for row in rows {
            let cells = [&row.highwater, &row.kafka, &row.ratios()].map(|values| cell(values));
            let limit = if has_limit { format!(" {} |", cell(&row.limit)) } else { String::new() };
            let (name, metric) = (&row.key.name, &row.key.metric);
            let [ours, kafkas, ratio] = cells;
            let _ = writeln!(text, "| {name} | {metric} | {ours} | {kafkas} | **{ratio} |{limit}");
        }
        text.push('\n');
    }
    // The median of a ratio is what counts.
    text.lines().map(|line| bold(line) + "\n").collect()
}

/// `**2.1 (1.9–2.3) |` becomes `**2.1** (1.9–2.3) |`.
fn bold(line: &str) -> String {
    let Some((before, after)) = line.split_once("**") else { return line.to_owned() };
    let end = after.find(' ').unwrap_or(after.len());
    match &after[..end] {
        "–" => format!("{before}{after}"),
        number => format!("{before}**{number}**{}", &after[end..]),
    }
}

/// The median, and the least and the most where there are several.
fn cell(values: &[f64]) -> String {
    let (Some(median), Some((least, most))) = (median(values), spread(values)) else {
        return "–".to_owned();
    };
    if values.len() == 1 {
        return short(median);
    }
    format!("{} ({}–{})", short(median), short(least), short(most))
}

/// Three digits that say something.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::Who;
    use crate::results::{Better, Key};

    fn results() -> Results {
        let mut results = Results::new(3, 1.0);
        let key = Key::new("produce", "16 KB batches", "MB/s", Better::More);
        for (ours, kafkas) in [(300.0, 100.0), (200.0, 100.0), (400.0, 100.0)] {
            results.add(Who::Highwater, key.clone(), ours);
            results.add(Who::Kafka, key.clone(), kafkas);
        }
        results
    }

    #[test]
    fn a_row_has_medians_spread_and_ratio() {
        let table = markdown(&results());
        let row = "| 16 KB batches | MB/s | 300 (200–400) | 100 (100–100) | **3.00** (2.00–4.00) |";
        assert!(table.contains(row), "{table}");
    }

    #[test]
    fn a_table_goes_between_the_marks_again_and_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("doc.md");
        fs::write(&path, format!("above\n{BEGIN}\nold\n{END}\nbelow\n")).expect("written");
        put_into(&results(), &path, false).expect("replaced");
        let once = fs::read_to_string(&path).expect("read");
        put_into(&results(), &path, false).expect("replaced");
        assert_eq!(fs::read_to_string(&path).expect("read"), once);
        assert!(once.starts_with("above\n") && once.ends_with("below\n") && !once.contains("old"));
    }
}
