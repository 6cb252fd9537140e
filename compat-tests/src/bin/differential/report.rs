//! What differed, told once for all versions in which it did.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crate::case::{Case, Step, api_key};
use crate::compare::Difference;
use crate::known::{KNOWN, Known};
use crate::run::{Planned, title};

/// Longest value that is shown whole.
const SHOWN_CHARS: usize = 300;

/// One difference: API of the step, case and step, path, both values.
type Row = (String, String, String, String, String);

/// How many of the slowest cases are told.
const SLOWEST: usize = 10;

/// The differences of a run.
#[derive(Debug, Default)]
pub struct Report {
    whole_run: bool,
    verbose: bool,
    rows: BTreeMap<Row, Vec<i16>>,
    /// Cases and paths in which a known difference was seen, by its place in the list.
    known: BTreeMap<usize, BTreeSet<String>>,
    compared: usize,
    ran: BTreeSet<String>,
    not_in_version: BTreeSet<String>,
    without_case: Vec<String>,
    took: Vec<(Duration, String)>,
}

impl Report {
    /// Of a run over all cases, or over some; verbose, with every place of a known difference.
    pub fn new(whole_run: bool, verbose: bool) -> Report {
        Report { whole_run, verbose, ..Report::default() }
    }

    /// A version of a case that cannot be asked.
    pub fn not_in_version(&mut self, case: &Case) {
        self.not_in_version.insert(title(case));
    }

    /// How long a case took in all versions.
    pub fn took(&mut self, case: &Case, time: Duration) {
        self.took.push((time, title(case)));
    }

    /// What differed in one step.
    pub fn add(&mut self, planned: &Planned, step: &Step, differences: Vec<Difference>) {
        self.compared += 1;
        self.ran.insert(title(planned.case));
        let (api, case) = (format!("{:?}", step.api), label(planned, step));
        for difference in differences {
            // Names of a version's own topics are the same in every version but for the prefix.
            let shown = |text: &str| text.replace(&planned.prefix, "~");
            let path = shown(&difference.path);
            match known(planned, step, &difference) {
                Some(known) => {
                    let seen = format!("{case} {path}");
                    self.known.entry(known).or_default().insert(seen);
                }
                None => {
                    let (ours, kafkas) = (shown(&difference.ours), shown(&difference.kafkas));
                    let row = (api.clone(), case.clone(), path, ours, kafkas);
                    self.rows.entry(row).or_default().push(planned.version);
                }
            }
        }
    }

    /// Every served API must have a case.
    pub fn apis_without_a_case(&mut self, served: &HashMap<i16, (i16, i16)>, cases: &[Case]) {
        let mut keys: Vec<i16> = served.keys().copied().collect();
        keys.sort_unstable();
        self.without_case = keys
            .into_iter()
            .map(api_key)
            .filter(|api| !cases.iter().any(|case| case.api == *api))
            .map(|api| format!("{api:?}"))
            .collect();
    }

    /// Prints everything; whether nothing is wrong.
    pub fn print(&mut self) -> bool {
        self.took.sort_unstable_by(|a, b| b.cmp(a));
        for (time, case) in self.took.iter().take(SLOWEST) {
            eprintln!("{:6.1} s  {case}", time.as_secs_f64());
        }
        for ((api, case, path, ours, kafkas), versions) in &self.rows {
            println!("DIFFERENT  {case} | {api} {} | {path}", spans(versions));
            println!("    Highwater: {}", cut(ours));
            println!("    Kafka:     {}", cut(kafkas));
        }
        println!("\nKnown differences:");
        let mut vanished = 0;
        for (index, known) in KNOWN.iter().enumerate() {
            let seen = self.known.get(&index);
            if seen.is_none() && !self.whole_run {
                continue;
            }
            vanished += usize::from(seen.is_none());
            let count = seen.map_or("VANISHED".to_owned(), |seen| format!("{} places", seen.len()));
            let Known(api, case, path, reason) = known;
            println!("  {api} | {case} | {path} | {count}");
            println!("      {reason}");
            for place in seen.into_iter().flatten().filter(|_| self.verbose) {
                println!("      - {place}");
            }
        }
        let never: Vec<_> = self.not_in_version.difference(&self.ran).collect();
        let uncovered = if self.whole_run { &self.without_case[..] } else { &[] };
        if !never.is_empty() {
            println!("\nCases that could be asked in no version: {never:?}");
        }
        if !uncovered.is_empty() {
            println!("\nServed APIs without a case: {uncovered:?}");
        }
        println!(
            "\n{} answers of {} cases compared: {} differences, {} known ones, {vanished} of the \
             known have vanished",
            self.compared,
            self.ran.len(),
            self.rows.len(),
            self.known.len(),
        );
        self.rows.is_empty() && vanished == 0 && never.is_empty() && uncovered.is_empty()
    }
}

fn label(planned: &Planned, step: &Step) -> String {
    match step.name.as_str() {
        "" => planned.case.name.clone(),
        step => format!("{}/{step}", planned.case.name),
    }
}

/// Which of the known differences it is, if any.
pub fn known(planned: &Planned, step: &Step, difference: &Difference) -> Option<usize> {
    let (api, case) = (format!("{:?}", step.api), label(planned, step));
    let path = difference.path.replace(&planned.prefix, "~");
    KNOWN.iter().position(|known| known.covers(&api, &case, &path))
}

/// `v0-3,5`.
fn spans(versions: &[i16]) -> String {
    let mut spans: Vec<(i16, i16)> = Vec::new();
    for version in versions {
        match spans.last_mut() {
            Some((_, end)) if *version <= *end + 1 => *end = *version,
            _ => spans.push((*version, *version)),
        }
    }
    let shown = spans.iter().map(|(start, end)| match start == end {
        true => start.to_string(),
        false => format!("{start}-{end}"),
    });
    format!("v{}", shown.collect::<Vec<_>>().join(","))
}

fn cut(value: &str) -> String {
    let one_line = value.replace('\n', " ");
    match one_line.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &one_line[..end]),
        None => one_line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_versions_are_one_span() {
        assert_eq!(spans(&[0, 1, 2, 5, 7, 8]), "v0-2,5,7-8");
        assert_eq!(spans(&[4, 4]), "v4");
    }
}
